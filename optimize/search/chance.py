"""Random generators, one for every purpose, so that a change in one draw moves no other."""

import hashlib

import numpy as np


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The same generator for the same seed and purpose, in any process."""
    words = ":".join(map(str, (seed, *purpose)))
    digest = hashlib.blake2b(words.encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))
