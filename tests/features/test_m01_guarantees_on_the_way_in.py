"""M01, M02, M03 for producers: the same faults, three declarations, and what is in the log afterwards.

Keeps: K2 a send has one outcome, and its error says whether the record may be there.
"""

from __future__ import annotations

from typing import Final

import pytest

import semel
from semel.broker.runtime.intercept import Action, AnswerError, CutMidFrame, DropRequest, DropResponse
from semel.clients.producer import Plain
from semel.errors import BrokerError, Outcome
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode
from tests.features.clusters import Kafka, lost, repeated

MOST, LEAST, _ = Guarantee
EXACTLY: Final = Guarantee.EXACTLY_ONCE
VALUES = [str(number) for number in range(6)]
# The fault, and the records lost and repeated at most once, at least once.
FAULTS: dict[str, tuple[Action, dict[Guarantee, tuple[int, int]]]] = {
    "request dropped": (DropRequest(), {MOST: (1, 0), LEAST: (0, 0)}),
    "response dropped": (DropResponse(), {MOST: (0, 0), LEAST: (0, 1)}),
    "response cut": (CutMidFrame(), {MOST: (0, 0), LEAST: (0, 1)}),
    "refused for now": (AnswerError(code=ErrorCode.NOT_LEADER_OR_FOLLOWER), {MOST: (0, 0), LEAST: (0, 0)}),
}
SETTINGS = {"linger.ms": 0, "retry.backoff.ms": 10, "retry.backoff.max.ms": 50}


def send_each(producer: semel.Producer[Plain], topic: str) -> list[BrokerError]:
    """One record after the other, so that a fault meets one of them."""
    errors = []
    for value in VALUES:
        try:
            producer.send(topic, value).result()
        except BrokerError as error:
            errors.append(error)
    return errors


@pytest.mark.quick(6)
@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_fault_does(cluster: semel.Cluster, faulty: Kafka, fault: str, guarantee: Guarantee) -> None:
    action, harm = FAULTS[fault]
    topic = faulty.topic()
    with semel.Producer(faulty.bootstrap, guarantee=guarantee, settings=SETTINGS) as producer:
        producer.send(topic, "first").result()
        hook = cluster.intercept("Produce", action, times=1)
        errors = send_each(producer, topic)
    assert hook.fired == 1
    found = faulty.counts(topic)
    assert (lost(VALUES, found), repeated(found)) == harm.get(guarantee, (0, 0))
    # A refusal is an answer: whoever got it knows that nothing happened, and even at most once may send again.
    unsure = guarantee is MOST and fault != "refused for now"
    assert [error.outcome for error in errors] == ([Outcome.UNKNOWN] if unsure else []), "who may lose is told"


def test_a_transaction_survives_what_a_plain_send_does_not(cluster: semel.Cluster, faulty: Kafka) -> None:
    topic = faulty.topic()
    with semel.Producer(
        faulty.bootstrap, guarantee=EXACTLY, transactional_id=topic, settings=SETTINGS, wait_ms_max=20_000
    ) as producer:
        hooks = [cluster.intercept(api, DropResponse(), times=1) for api in ("Produce", "AddPartitionsToTxn", "EndTxn")]
        with producer.transaction() as tx:
            for value in VALUES:
                tx.send(topic, value)
    assert [hook.fired for hook in hooks] == [1, 1, 1]
    assert faulty.values(topic) == VALUES


def test_what_was_never_sent_did_not_happen(kafka: Kafka) -> None:
    topic = kafka.topic()
    with semel.Producer(kafka.bootstrap, guarantee=LEAST, settings={"message.max.bytes": 2000}) as producer:
        with pytest.raises(BrokerError, match="MSG_SIZE_TOO_LARGE") as caught:
            producer.send(topic, b"x" * 3000)
        missing = producer.send(topic, b"x", partition=7)
        with pytest.raises(BrokerError, match="UNKNOWN_PARTITION") as absent:
            missing.result()
    assert (caught.value.outcome, absent.value.outcome) == (Outcome.DID_NOT_HAPPEN, Outcome.DID_NOT_HAPPEN)
    assert kafka.values(topic) == []
