"""Histories with planted anomalies: two sides, and what was done to the right one."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from semel.audit.finding import Kind
from tests.unit.audit.naive import Seen

UNIT_RECORDS = 4


class History(NamedTuple):
    """Both sides, and the counts that an audit must come to."""

    left: list[Seen]
    right: list[Seen]
    planted: Counter[Kind]


@st.composite
def histories(draw: st.DrawFn, *, records_max: int = 12) -> History:
    """Draw a source whose records are unlike each other, and damage each of them in one way or not at all."""
    planted: Counter[Kind] = Counter()
    left = [
        Seen(identity=number, content=draw(st.integers(0, 2)), position=number, unit=number // UNIT_RECORDS)
        for number in range(draw(st.integers(0, records_max)))
    ]
    right: list[Seen] = []
    fates: dict[int, list[str]] = {}
    for seen in left:
        fate = draw(st.sampled_from(["kept", "kept", "kept", "lost", "doubled", "altered"]))
        fates.setdefault(seen.unit, []).append(fate)
        match fate:
            case "kept":
                right.append(seen)
            case "lost":
                planted[Kind.LOST] += 1
            case "doubled":
                copies = draw(st.integers(2, 4))
                right += [seen] * copies
                planted[Kind.DUPLICATED] += copies - 1
            case "altered":
                right.append(seen._replace(content=seen.content + 1))
                planted[Kind.ALTERED] += 1
    for number in range(draw(st.integers(0, 2))):
        copies = draw(st.integers(1, 2))
        right += [Seen(identity=-1 - number)] * copies
        planted[Kind.UNEXPECTED] += copies
    planted[Kind.TORN] = sum("lost" in one and set(one) != {"lost"} for one in fates.values())
    right = _placed(right)
    # One record is taken from its place and put behind others that followed it: it alone is late.
    singles = [at for at, seen in enumerate(right) if seen.identity >= 0]
    if len(singles) > 1 and draw(st.booleans()):
        _put_first_last(right, singles, planted)
    return History(left, _placed(right), planted)


def _put_first_last(right: list[Seen], known: list[int], planted: Counter[Kind]) -> None:
    moved = right[known[0]].identity
    group = [seen for seen in right if seen.identity == moved]
    others = [seen for seen in right if seen.identity != moved]
    right[:] = [*others, *group]
    if any(seen.identity > moved for seen in others):
        planted[Kind.REORDERED] += 1


def _placed(right: list[Seen]) -> list[Seen]:
    """Number the right side in the order in which it stands."""
    return [seen._replace(position=at) for at, seen in enumerate(right)]


@cache
def drawn_histories(count: int) -> tuple[History, ...]:
    """The same histories on every run, in one list, for an audit that takes them all at once."""
    found: list[History] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(history=histories())
    def collect(history: History) -> None:
        found.append(history)

    collect()
    return tuple(found)
