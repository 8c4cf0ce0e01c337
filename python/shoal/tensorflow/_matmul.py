"""Finding sufficient factors in a graph: a weight's gradient that is the product of two thin matrices."""


def factors(gradient):
    """The pair ``(a, b)`` of a gradient that is ``matmul(a, b, transpose_a=True)`` in a graph, else None."""
    product = product_of(gradient)
    if product is None:
        return None
    a, b = product.inputs
    if a.shape.rank != 2 or b.shape.rank != 2:
        return None
    return a, b


def product_of(gradient):
    """The MatMul behind a gradient, seen through the identities that TensorFlow puts behind it."""
    operation = gradient.op
    while operation.type == "Identity":
        operation = operation.inputs[0].op
    if operation.type != "MatMul":
        return None
    if not operation.get_attr("transpose_a") or operation.get_attr("transpose_b"):
        return None
    return operation


def release(gradient):
    """Lets the product go uncomputed, where only TensorFlow 1's gates ask for it. Gives what the gates still wait for.

    ``tf.gradients`` lets no gradient of an operation pass before all of them are there, so that no variable is updated
    while another gradient still reads it. The product reads no variable, so the gate need not wait for it; what is
    started in its stead must still wait for the gate.
    """
    product = product_of(gradient)
    gates = []
    operation = gradient.op
    while operation.type == "Identity":
        for gate in operation.control_inputs:
            if gate.type == "NoOp" and product in gate.control_inputs:
                rest = [other for other in gate.control_inputs if other is not product]
                gate._remove_all_control_inputs()
                gate._add_control_inputs(rest)
            gates.append(gate)
        operation = operation.inputs[0].op
    return gates
