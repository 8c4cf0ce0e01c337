"""A model of letters: counts which letter follows the last few."""

import math
import random
from collections import Counter, defaultdict


def train_epoch(text, order, smoothing, epochs, seed=0):
    """Yields, after each epoch, how many bits a letter of the held-out end of the text costs."""
    split = len(text) * 3 // 4
    counts = defaultdict(Counter)
    places = list(range(order, split))
    letters = len(set(text))
    for epoch in range(epochs):
        # A third of the places each time, so that there is something to learn in every epoch.
        for place in random.Random(f"{seed}/{epoch}").sample(places, len(places) // 3):
            counts[text[place - order : place]][text[place]] += 1
        bits = 0.0
        for place in range(split, len(text)):
            seen = counts[text[place - order : place]]
            bits -= math.log2((seen[text[place]] + smoothing) / (sum(seen.values()) + smoothing * letters))
        yield round(bits / (len(text) - split), 4)
