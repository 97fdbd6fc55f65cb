"""M02 (AT_LEAST_ONCE): a coordinator that is loaded, or slow, does not end the program that commits to it.

librdkafka sends a refused commit three times and then gives up, while Apache Kafka may take seconds to load a
coordinator. `Consumer.commit` goes on until its own limit; a refusal that no waiting cures is raised at once. After
NOT_COORDINATOR the library stops its heartbeats too, and a member that was expelled meanwhile is fenced.
"""

import pytest

import semel
from semel.broker.runtime.intercept import AnswerError
from semel.errors import BrokerError
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode
from tests.features.reading import committed_offset
from tests.support.topics import create_topic, produce

RECORDS = 5
MORE_OFTEN_THAN_THE_LIBRARY_TRIES = 8
AWAY = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT]


def consume_and_commit(cluster: semel.Cluster, name: str, refused: ErrorCode, times: int | None) -> int:
    """Read everything and commit it while the commit is refused so often; how often it was."""
    create_topic(cluster, name)
    produce(cluster, name, RECORDS)
    member = semel.Consumer(
        cluster.bootstrap,
        [name],
        group=name,
        guarantee=Guarantee.AT_LEAST_ONCE,
        settings={"auto.offset.reset": "earliest", "retry.backoff.ms": 20, "retry.backoff.max.ms": 50},
    )
    with member:
        batches = member.batches()
        assert len(list(next(batches))) == RECORDS
        hook = cluster.intercept("OffsetCommit", AnswerError(code=refused), times=times)
        try:
            member.commit()
        finally:
            cluster.disarm()
    return hook.fired


@pytest.mark.parametrize("refused", AWAY, ids=lambda code: code.name)
def test_a_commit_waits_for_its_coordinator(semel_cluster: semel.Cluster, semel_name: str, refused: ErrorCode) -> None:
    fired = consume_and_commit(semel_cluster, semel_name, refused, MORE_OFTEN_THAN_THE_LIBRARY_TRIES)
    assert fired == MORE_OFTEN_THAN_THE_LIBRARY_TRIES
    assert committed_offset(semel_cluster, semel_name, semel_name) == RECORDS


def test_a_refusal_that_no_waiting_cures_is_raised(semel_cluster: semel.Cluster, semel_name: str) -> None:
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        consume_and_commit(semel_cluster, semel_name, ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
