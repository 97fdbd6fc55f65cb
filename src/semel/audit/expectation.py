"""How often each record of the left side is expected on the right, and the counting that follows from it.

    exactly-one     neither lost nor doubled: exactly once, one to one
    at-most-one     may be missing
    at-least-one    may be doubled
    3               three copies of each: a fan-out

Rows that a filter of the pipeline drops are named by an SQL predicate (`where`): those for which it is not true are not
asked for, and are UNEXPECTED if they arrive.

Why ALTERED goes first: one identity with a missing content and a surplus one is one changed record, not a lost one and
a stranger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from semel.errors import ConfigError

# Beyond this a number is rather a slip of the hand than a fan-out.
COPIES_MAX = 1_000_000
_NAMED = {"exactly-one": (1, 1), "at-most-one": (0, 1), "at-least-one": (1, None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Copies on the right per record on the left; `copies_max` None means any number."""

    copies_min: int = 1
    copies_max: int | None = 1
    where: str = ""

    def __post_init__(self) -> None:
        """Refuse numbers that ask for nothing, or for less than nothing."""
        most = self.copies_max
        if self.copies_min < 0 or (most is not None and not max(1, self.copies_min) <= most <= COPIES_MAX):
            raise ConfigError(
                f"{self.copies_min} to {most} copies cannot be expected",
                you_want=f"{' | '.join(_NAMED)} | a number from 1 to {COPIES_MAX}",
            )

    @classmethod
    def parse(cls, text: str, *, where: str = "") -> Self:
        """Read `exactly-one`, `at-most-one`, `at-least-one` or a number of copies."""
        name = "-".join(text.strip().lower().replace("_", " ").replace("-", " ").split())
        if name in _NAMED:
            least, most = _NAMED[name]
            return cls(copies_min=least, copies_max=most, where=where)
        # Not `name`: it has lost the sign of "-1".
        number = text.strip()
        if not (number.isascii() and number.isdigit()):
            raise ConfigError(f"{text!r} copies cannot be expected", you_want=f"{' | '.join(_NAMED)} | a number")
        return cls(copies_min=int(number), copies_max=int(number), where=where)

    def __str__(self) -> str:
        """As options are written."""
        named = {bounds: name for name, bounds in _NAMED.items()}
        text = named.get((self.copies_min, self.copies_max), str(self.copies_min))
        return f"{text} where {self.where}" if self.where else text

    @property
    def copies_usual(self) -> int:
        """A number of copies that holds: right sides with so many of each record need no closer look."""
        return max(1, self.copies_min)

    def tally(self, contents: Iterable[tuple[int, int]]) -> Tally:
        """Count the anomalies of one identity from its contents: copies on the left, copies on the right, of each."""
        pairs = tuple(contents)
        on_left = sum(left for left, _ in pairs)
        missing = sum(max(0, self.copies_min * left - right) for left, right in pairs)
        if self.copies_max is None:
            surplus = sum(right for left, right in pairs if left == 0)
            room = surplus if on_left else 0
        else:
            surplus = sum(max(0, right - self.copies_max * left) for left, right in pairs)
            room = sum(max(0, self.copies_max * left - right) for left, right in pairs)
        # First of all, see above: what is left after it is lost or doubled.
        altered = min(room, surplus)
        over = surplus - altered
        return Tally(
            lost=max(0, missing - altered),
            altered=altered,
            duplicated=over if on_left else 0,
            unexpected=0 if on_left else over,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The anomalies of one identity."""

    lost: int = 0
    altered: int = 0
    duplicated: int = 0
    unexpected: int = 0
