"""The windows of an audit that follows, on Spark, held against queues in plain Python."""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from semel.audit.expectation import Expectation
from semel.audit.finding import Kind
from semel.audit.open_records import Moment, add_up, judge, keep, let_go, nothing_open

WINDOWS, BOUND = 6, 1
HISTORIES = 600


class Record(NamedTuple):
    """Which of many histories it belongs to, who it is, what it says."""

    history: int
    identity: int
    content: int


class Queues:
    """The same by hand: for each record the windows of its copies without a partner."""

    def __init__(self, expectation: Expectation) -> None:
        self.expectation = expectation
        self.missing: dict[Record, deque[int]] = defaultdict(deque)
        self.surplus: dict[Record, deque[int]] = defaultdict(deque)
        self.known: dict[tuple[int, int], int] = {}
        self.owed: dict[Record, deque[int]] = defaultdict(deque)
        self.found: Counter[tuple[int, Kind]] = Counter()

    def come(self, window: int, left: list[Record], right: list[Record]) -> None:
        for one in left:
            self.missing[one] += [window] * self.expectation.copies_usual
            self.known[one[:2]] = window
        for one in right:
            self.surplus[one].append(window)
        for one in [*self.missing]:
            while self.missing[one] and self.surplus[one]:
                self.missing[one].popleft()
                self.surplus[one].popleft()
        for one in [*self.owed]:
            while self.owed[one] and self.surplus[one]:
                self.owed[one].popleft()
                self.surplus[one].popleft()

    def settle(self, window: int, settled: int) -> None:
        every = {*self.missing, *self.surplus}
        for identity in {one[:2] for one in every}:
            contents = [one for one in every if one[:2] == identity]
            lost = [one for one in contents for at in self.missing[one] if at <= settled]
            over = [one for one in contents for at in self.surplus[one] if at <= settled or lost]
            altered = min(len(lost), len(over))
            kinds = {Kind.ALTERED: altered, Kind.LOST: (len(lost) - altered) * bool(self.expectation.copies_min)}
            kinds[Kind.DUPLICATED if identity in self.known else Kind.UNEXPECTED] = len(over) - altered
            for kind, count in kinds.items():
                self.found[identity[0], kind] += count
            for one in lost:
                self.missing[one].popleft()
                self.owed[one].append(window)
                self.known[identity] = window
            for one in over:
                self.surplus[one].popleft()
        self.known = {one: at for one, at in self.known.items() if at > settled}
        for queue in self.owed.values():
            while queue and queue[0] <= settled:
                queue.popleft()


def drawn(seed: int, copies: int) -> list[tuple[list[Record], list[Record]]]:
    """What comes in each window of many histories: most records arrive within the bound, some are damaged."""
    rng = random.Random(seed)
    windows: list[tuple[list[Record], list[Record]]] = [([], []) for _ in range(WINDOWS + 1)]
    for history in range(HISTORIES):
        for _ in range(rng.randrange(8)):
            one = Record(history, rng.randrange(4), rng.randrange(2))
            at = rng.randrange(1, WINDOWS - 2 * BOUND)
            windows[at][0].append(one)
            fate = rng.choice(["kept"] * 4 + ["lost", "doubled", "altered", "late"])
            arrived = [one._replace(content=7) if fate == "altered" else one] * (copies + (fate == "doubled"))
            for copy in arrived if fate != "lost" else []:
                delay = rng.randint(BOUND + 1, 2 * BOUND) if fate == "late" else rng.randint(0, BOUND)
                windows[at + delay][1].append(copy)
        if rng.random() < 0.2:
            windows[rng.randrange(1, WINDOWS)][1].append(Record(history, 9, 9))
    return windows


@pytest.mark.full
@pytest.mark.parametrize("expect", ["exactly-one", "at-most-one", "2"])
def test_windows_are_settled_as_queues_settle_them(spark: SparkSession, expect: str) -> None:
    expectation = Expectation.parse(expect)
    queues, state, found = Queues(expectation), nothing_open(spark), Counter[Kind]()
    sql = ["xxhash64(history, identity) AS id", "xxhash64(history, identity, content) AS mark"]
    schema = "history bigint, identity bigint, content bigint"
    for window, came in enumerate(drawn(1, expectation.copies_usual)):
        settled = window - BOUND - 1
        queues.come(window, *came)
        queues.settle(window, settled)
        left, right = (spark.createDataFrame([tuple(one) for one in side], schema).selectExpr(*sql) for side in came)
        judged = keep(judge(state, left, right, Moment(window=window, settled=settled), expectation))
        let_go(state)
        state, counts = judged, add_up(judged)
        assert (counts.came_left, counts.came_right) == tuple(map(len, came))
        found.update(counts.kinds)
        wanted = Counter[Kind]()
        for (_, kind), count in queues.found.items():
            wanted[kind] += count
        assert found == wanted, f"after window {window}"
        assert counts.open_left == sum(map(len, queues.missing.values()))
        assert counts.open_right == sum(map(len, queues.surplus.values()))
    assert all(found[kind] for kind in (Kind.DUPLICATED, Kind.ALTERED, Kind.UNEXPECTED))
    let_go(state)
