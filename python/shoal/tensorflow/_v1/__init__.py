"""TensorFlow 1 as Poseidon's scripts know it, on TensorFlow 2: what `import tensorflow` gives to scripts of then."""
