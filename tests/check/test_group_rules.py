"""S026, S037, S039: live groups and transactions, each once wrong and once right."""

from semel.broker.runtime.intercept import AnswerError
from semel.clients.library import confluent
from semel.drill.damage.records import (
    WAIT_S_MAX,
    admin_of,
    commit_position,
    consumer,
    new_name,
    new_topic,
    numbered,
    producer,
    send_each,
)
from semel.engine.embedded import Cluster
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode
from semel.world.clock import RealClock
from tests.check.looking import broken, held, look, unknown

LEAST = Guarantee.AT_LEAST_ONCE
DAY_MS = 86_400_000


def test_a_group_behind_retention(weak: Cluster) -> None:
    topic, group = new_topic(weak, "behind", config={"retention.ms": str(7 * DAY_MS)}), new_name("behind")
    client = consumer(weak, group)
    commit_position(client, topic, 2)
    send_each(producer(weak, {}), topic, numbered(), time_ms=RealClock().wall_ms())
    held(look(weak.bootstrap, topic, groups=[group]), "S026")
    finding = broken(look(weak.bootstrap, topic, groups=[group], ahead_ms=5 * DAY_MS), "S026")
    assert "8 behind" in finding.found
    commit_position(client, topic, 10)
    held(look(weak.bootstrap, topic, groups=[group], ahead_ms=5 * DAY_MS), "S026")
    client.close()


def test_a_group_behind_a_topic_that_keeps_so_many_bytes(weak: Cluster) -> None:
    topic, group = new_topic(weak, "sizes", config={"retention.bytes": "2000", "retention.ms": "-1"}), new_name("sizes")
    client = consumer(weak, group)
    commit_position(client, topic, 0)
    send_each(producer(weak, {}), topic, numbered(16))
    assert "bytes unread" in broken(look(weak.bootstrap, topic, groups=[group]), "S026").found
    commit_position(client, topic, 12)
    held(look(weak.bootstrap, topic, groups=[group]), "S026")
    hook = weak.intercept("DescribeLogDirs", AnswerError(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), times=None)
    unknown(look(weak.bootstrap, topic, groups=[group]), "S026")
    assert hook.fired
    client.close()


def test_records_that_were_deleted_unread(weak: Cluster) -> None:
    topic, group = new_topic(weak, "deleted"), new_name("deleted")
    client = consumer(weak, group)
    commit_position(client, topic, 1)
    send_each(producer(weak, {}), topic, numbered())
    admin = admin_of(weak)
    for done in admin.delete_records([confluent().TopicPartition(topic, 0, 5)]).values():
        done.result(WAIT_S_MAX)
    assert "4 offsets deleted unread" in broken(look(weak.bootstrap, topic, groups=[group]), "S026").found
    client.close()


def test_a_partition_without_a_position(weak: Cluster) -> None:
    topic, group = new_topic(weak, "positions", partitions=2), new_name("positions")
    client = consumer(weak, group)
    commit_position(client, topic, 0)
    assert f"{topic}-1" in broken(look(weak.bootstrap, topic, groups=[group], guarantee=LEAST), "S037").found
    commit_position(client, topic, 0, partition=1)
    held(look(weak.bootstrap, topic, groups=[group], guarantee=LEAST), "S037")
    client.close()


def test_a_group_that_does_not_exist(weak: Cluster) -> None:
    topic = new_topic(weak, "positions")
    assert "no such group" in broken(look(weak.bootstrap, topic, groups=["nobody"]), "S037").found


def test_a_transaction_that_stands_open(weak: Cluster) -> None:
    topic, name = new_topic(weak, "standing"), new_name("standing")
    client = producer(weak, {"transactional.id": name, "transaction.timeout.ms": 60_000})
    client.init_transactions(WAIT_S_MAX)
    held(look(weak.bootstrap, transactional_ids=[name]), "S039")
    client.begin_transaction()
    client.produce(topic, "open")
    client.flush(WAIT_S_MAX)
    held(look(weak.bootstrap, transactional_ids=[name]), "S039")
    broken(look(weak.bootstrap, transactional_ids=[name], ahead_ms=50_000), "S039")
    client.abort_transaction(WAIT_S_MAX)
    held(look(weak.bootstrap, transactional_ids=[name], ahead_ms=50_000), "S039")
    held(look(weak.bootstrap, transactional_ids=["never seen"]), "S039")
