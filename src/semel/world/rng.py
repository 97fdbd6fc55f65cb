"""Randomness: from the operating system, or from one seed.

Keeps: no other module draws random numbers, so one seed gives one run.
Why:   `fork` derives a stream from the seed and a name, never from what was drawn so far: a new draw in one part of
       the code leaves every other part's stream as it was. The same name gives the same stream again.
"""

import hashlib
import random
import uuid
from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Rng(Protocol):
    """A stream of random draws."""

    def uniform(self, low: float, high: float) -> float:
        """Draw a float between the two."""

    def integer(self, low: int, high_inclusive: int) -> int:
        """Draw a whole number; both ends are possible."""

    def choice(self, seq: Sequence[T]) -> T:
        """Draw one element of a sequence that is not empty."""

    def chance(self, p: float) -> bool:
        """Draw true with this probability."""

    def token_bytes(self, n: int) -> bytes:
        """Draw n bytes."""

    def uuid(self) -> uuid.UUID:
        """Draw a version 4 UUID."""

    def fork(self, name: str) -> "Rng":
        """Give the independent stream of that name."""


class _Draws:
    """The draws, on whichever generator stands behind."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def uniform(self, low: float, high: float) -> float:
        """Draw a float between the two."""
        return self._source.uniform(low, high)

    def integer(self, low: int, high_inclusive: int) -> int:
        """Draw a whole number; both ends are possible."""
        return self._source.randint(low, high_inclusive)

    def choice(self, seq: Sequence[T]) -> T:
        """Draw one element of a sequence that is not empty."""
        return self._source.choice(seq)

    def chance(self, p: float) -> bool:
        """Draw true with this probability."""
        return self._source.random() < p

    def token_bytes(self, n: int) -> bytes:
        """Draw n bytes."""
        return self._source.randbytes(n)

    def uuid(self) -> uuid.UUID:
        """Draw a version 4 UUID."""
        return uuid.UUID(bytes=self.token_bytes(16), version=4)


class RealRng(_Draws):
    """The operating system's randomness; every stream is independent already."""

    def __init__(self) -> None:
        """No seed: what it draws cannot be repeated."""
        super().__init__(random.SystemRandom())

    def fork(self, name: str) -> "RealRng":  # noqa: ARG002 - the twin derives a stream from the name
        """Give the independent stream of that name."""
        return RealRng()


class SeededRng(_Draws):
    """Draws that follow from the seed alone; not for secrets."""

    def __init__(self, seed: int) -> None:
        """Start the stream of this seed."""
        self.seed = seed
        super().__init__(random.Random(seed))  # noqa: S311 - repeatable on purpose

    def fork(self, name: str) -> "SeededRng":
        """Give the independent stream of that name."""
        # Not Python's own `hash`, which is another one in every process.
        digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
        return SeededRng(int.from_bytes(digest, "big"))
