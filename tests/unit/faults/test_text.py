"""Faults as text and as JSON: what is written is read back, and what cannot be read is refused with how to write it."""

from __future__ import annotations

import pytest

from semel.errors import ConfigError
from semel.faults import FAULTS, ClockJump, ClusterShape, Fault, KillBroker, LoseRequest, MoveLeader, make, parse
from semel.faults.drawing import Draws

AROUND = ClusterShape(brokers=3, topics={"orders": 6, "seats": 2})


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_is_read_back_from_its_text_and_its_settings(kind: str) -> None:
    draws = Draws(7, AROUND)
    for _ in range(20):
        fault = draws.fault([kind])
        assert type(fault) is FAULTS[kind]
        assert parse(str(fault)) == fault
        assert make(fault.name, fault.settings) == fault
        assert fault.fired == 0


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill-broker broker=2", KillBroker(broker=2)),
        ("clock-jump broker=1 ms=-5", ClockJump(broker=1, ms=-5)),
        ("lose-request silent=true times=0", LoseRequest(silent=True, times=0)),
        ("move-leader topic=orders partition=3", MoveLeader(topic="orders", partition=3)),
    ],
)
def test_texts_that_people_write(text: str, fault: Fault) -> None:
    assert parse(text) == fault


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no fault is called ''"),
        ("explode", "no fault is called 'explode'"),
        ("kill-broker", "needs broker"),
        ("kill-broker broker", "'broker' is not a setting"),
        ("kill-broker broker=two", "broker cannot be 'two'"),
        ("kill-broker broker=1.5", "broker cannot be '1.5'"),
        ("kill-broker broker=2 _record=1", "no setting '_record'"),
        ("lose-request silent=perhaps", "silent cannot be 'perhaps'"),
        ("refuse-request code=NOPE", "Kafka has no error 'NOPE'"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(text)
