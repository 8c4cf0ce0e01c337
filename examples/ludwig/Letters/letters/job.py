"""One run: a model of letters, trained on a text of its own making; returns named Series, which become files."""

import math
import os
import random
from collections import Counter, defaultdict
from pathlib import Path

import pandas as pd


def main(param2val):
    order, smoothing = param2val["order"], param2val["smoothing"]
    # Copies of a configuration differ in their seed alone.
    rng = random.Random(int(os.environ.get("SHOAL_SEED", "0")))
    letters = "".join(param2val["alphabet"])
    follows = {letter: rng.choices(letters, k=3) for letter in letters}
    text = letters[0]
    for _ in range(2000):
        text += rng.choice(follows[text[-1]])

    counts = defaultdict(Counter)
    bits = []
    for epoch in range(param2val["epochs"]):
        for place in rng.sample(range(order, 1500), 400):
            counts[text[place - order : place]][text[place]] += 1
        cost = 0.0
        for place in range(1500, 2000):
            seen = counts[text[place - order : place]]
            cost -= math.log2((seen[text[place]] + smoothing) / (sum(seen.values()) + smoothing * len(letters)))
        bits.append(cost / 500)
        print(f"epoch {epoch}: {bits[-1]:.3f} bits a letter", flush=True)

    # What is too large for a Series goes here, and to the share when the run is complete.
    save_path = Path(param2val["save_path"])
    (save_path / "contexts.txt").write_text("\n".join(sorted(counts)))

    epochs = list(range(1, len(bits) + 1))
    return [
        pd.Series(bits, index=epochs, name="bits"),
        pd.Series([len(counts)] * len(bits), index=epochs, name="contexts"),
    ]
