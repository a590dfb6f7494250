"""Random numbers of a stream: by the seed, the stream's name and what they are for, alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

BLOCK = 2**16
"""Numbers that are drawn, and times that are handed out, at a time."""

MAX_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Numbers:
    """Where the random numbers of one stream are from.

    What a stream draws follows from the seed and its own name alone: other streams, their order
    and the plan that serves them change nothing. So plans that are compared see the same
    requests at the same times.

    Attributes
    ----------
    seed : int
        Of the workload.
    stream : str
        Its name.
    """

    seed: int
    stream: str

    def generator(self, purpose: str, part: int = 0) -> np.random.Generator:
        """Return the numbers for one purpose, from their beginning.

        Parameters
        ----------
        purpose : str
            Two purposes have numbers that are independent of each other.
        part : int
            Parts of one purpose are independent of each other, too.

        Source: SeedSequence of numpy, whose spawn key is made of the names here.
        """
        digest = hashlib.sha256(f"{self.stream}\n{purpose}".encode()).digest()[:16]
        words = (int.from_bytes(digest[at : at + 4], "little") for at in range(0, 16, 4))
        sequence = np.random.SeedSequence(self.seed, spawn_key=(*words, part))
        return np.random.Generator(np.random.PCG64(sequence))
