"""The audit in its simplest form: lists, and each record looked for one by one. The Spark audit is held against it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from semel.audit.expectation import Expectation
from semel.audit.finding import Kind


class Seen(NamedTuple):
    """One record of one side; `stream` and `position` are its place in an order, `unit` is what it was written with."""

    identity: int
    content: int = 0
    stream: int = 0
    position: int = 0
    unit: int = 0


class _Wanted:
    """A record of the left side, and the right ones that were taken for it."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.arrived = 0


def naive_audit(left: Sequence[Seen], right: Sequence[Seen], expectation: Expectation) -> Counter[Kind]:
    """Count every kind by pairing copies, the neediest first, equal content before other content."""
    counts: Counter[Kind] = Counter()
    wanted: dict[int, list[_Wanted]] = defaultdict(list)
    for seen in left:
        wanted[seen.identity].append(_Wanted(seen))
    strangers = [seen for seen in right if not _take(wanted[seen.identity], seen, expectation, same_content=True)]
    for seen in strangers:
        if _take(wanted[seen.identity], seen, expectation, same_content=False):
            counts[Kind.ALTERED] += 1
        else:
            counts[Kind.DUPLICATED if wanted[seen.identity] else Kind.UNEXPECTED] += 1
    everything = [one for group in wanted.values() for one in group]
    counts[Kind.LOST] = sum(max(0, expectation.copies_min - one.arrived) for one in everything)
    counts[Kind.REORDERED] = _count_late(left, right)
    whole, short = set[int](), set[int]()
    for one in everything:
        (short if one.arrived < expectation.copies_min else whole).add(one.seen.unit)
    counts[Kind.TORN] = len(whole & short)
    return counts


def _take(group: list[_Wanted], seen: Seen, expectation: Expectation, *, same_content: bool) -> bool:
    most = expectation.copies_max
    free = [
        one
        for one in group
        if (one.seen.content == seen.content) is same_content and (most is None or one.arrived < most)
    ]
    if not free:
        return False
    min(free, key=lambda one: one.arrived).arrived += 1
    return True


def _count_late(left: Sequence[Seen], right: Sequence[Seen]) -> int:
    """Records behind one that follows them, in each pair of a left and a right stream.

    Of copies on the right the first counts; of what is more than once on the left nobody knows which one arrived.
    """
    copies = Counter(seen.identity for seen in left)
    first_left = {one: seen for one, seen in _first(left).items() if copies[one] == 1}
    first_right = _first(right)
    late = 0
    pairs = {(first_left[one].stream, first_right[one].stream) for one in first_left.keys() & first_right.keys()}
    for pair in pairs:
        here = [
            one
            for one in first_left.keys() & first_right.keys()
            if (first_left[one].stream, first_right[one].stream) == pair
        ]
        arrived = sorted(here, key=lambda one: first_right[one].position)
        positions = [first_left[one].position for one in arrived]
        late += sum(any(earlier > mine for earlier in positions[:at]) for at, mine in enumerate(positions))
    return late


def _first(side: Sequence[Seen]) -> dict[int, Seen]:
    """The first copy of each identity."""
    found: dict[int, Seen] = {}
    for seen in sorted(side, key=lambda one: (one.stream, one.position)):
        found.setdefault(seen.identity, seen)
    return found
