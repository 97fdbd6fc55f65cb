"""Copying that outlives a cluster's faults: the programs of `semel.drill`, on any cluster, counted afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from semel.drill.programs import ProgramInput
from semel.drill.ways import LEAST, MOST, SESSION, STORE, TRANSACTIONS, Way
from semel.guarantee import Anomaly
from tests.features.clusters import Kafka, lost, repeated

STRUCK_AT = 3
WAYS = (MOST, LEAST, TRANSACTIONS, STORE, SESSION)


def prepared(kafka: Kafka, records: int, store: Path) -> ProgramInput:
    """Something to copy on three replicas, and a group that stands at its beginning."""
    source, target = kafka.topic(2, replicas=3), kafka.topic(1, replicas=3)
    values = kafka.fill(source, records, keyed=True)
    kafka.commit_start(source, source, 2)
    return ProgramInput(
        bootstrap=kafka.bootstrap, source=source, target=target, values=values, ends=kafka.ends(source), store=store
    )


class AtMoment:
    """Strikes once, when the work has come to a step for the third time."""

    def __init__(self, moment: str, strike: Callable[[], None]) -> None:
        """Nothing has happened yet."""
        self._moment, self._strike, self._left = moment, strike, STRUCK_AT

    def __call__(self, step: str) -> None:
        if step == self._moment:
            self._left -= 1
            if self._left == 0:
                self._strike()


def check(kafka: Kafka, way: Way, program_input: ProgramInput, what: str) -> tuple[int, int]:
    """How many are lost and how many repeated; nothing that the guarantee does not allow."""
    found = way.found(program_input)
    missing, surplus = lost(program_input.values, found), repeated(found)
    told = f"{kafka.name}, {way}, {what}: lost {missing}, repeated {surplus}"
    sys.stdout.write(f"\n  {told}\n")
    assert missing == 0 or way.guarantee.allows(Anomaly.LOST), told
    assert surplus == 0 or way.guarantee.allows(Anomaly.DUPLICATED), told
    return missing, surplus
