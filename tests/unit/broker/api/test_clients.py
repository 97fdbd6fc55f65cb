"""What real clients do with groups and administration: confluent-kafka (librdkafka) and kafka-python."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType as Kind

from semel.engine.embedded import Cluster
from tests.support.kafka_python import KafkaAdminClient, KafkaConsumer
from tests.support.kafka_python import TopicPartition as Place
from tests.support.topics import create_topic, produce
from tests.support.waiting import eventually

WAIT_S = 20
pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Any]:
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as client:
        yield client


def consumer(cluster: Cluster, group_id: str, topic: str, **settings: object) -> Any:
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            **settings,
        }
    )
    made.subscribe([topic])
    return made


def shares(*consumers: Any) -> list[int]:
    """Let every consumer work for a moment; how many partitions each has then."""
    for one in consumers:
        one.poll(0.05)
    return sorted(len(one.assignment()) for one in consumers)


def test_librdkafka_shares_partitions_and_takes_over_from_one_that_leaves(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name, partitions=4)
    first, second = consumer(cluster, name, name), consumer(cluster, name, name)
    eventually(lambda: shares(first, second) == [2, 2], WAIT_S)
    second.close()
    eventually(lambda: shares(first) == [4], WAIT_S)
    first.close()


def test_librdkafka_goes_on_where_another_committed(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    produce(cluster, name, 10)
    first = consumer(cluster, name, name)
    records = first.consume(4, timeout=WAIT_S)
    assert [record.offset() for record in records] == [0, 1, 2, 3]
    first.commit(message=records[-1], asynchronous=False)
    first.close()
    second = consumer(cluster, name, name)
    assert [record.offset() for record in second.consume(6, timeout=WAIT_S)] == [4, 5, 6, 7, 8, 9]
    assert second.committed([TopicPartition(name, 0)], timeout=WAIT_S)[0].offset == 4
    second.close()


def test_kafka_python_shares_a_group_with_itself(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name, partitions=2)
    produce(cluster, name, 3, partition=0)
    produce(cluster, name, 3, partition=1)
    settings = {"bootstrap_servers": cluster.bootstrap, "group_id": name, "auto_offset_reset": "earliest"}
    with closing(KafkaConsumer(enable_auto_commit=False, **settings)) as reader:
        # One that joins before it has heard of the topic is given nothing, and may miss that there is something by now.
        assert reader.partitions_for_topic(name) == {0, 1}
        reader.subscribe([name])
        seen: set[tuple[int, int]] = set()  # what it read before its group was shared out again it reads twice

        def read() -> bool:
            seen.update((record.partition, record.offset) for rows in reader.poll(100).values() for record in rows)
            return len(seen) == 6

        eventually(read, WAIT_S)
        reader.commit()
    with closing(KafkaConsumer(**settings)) as other:
        assert {other.committed(partition) for partition in (Place(name, 0), Place(name, 1))} == {3}


def test_kafka_python_describes_lists_and_deletes_groups(cluster: Cluster, name: str, admin: Any) -> None:
    create_topic(cluster, name)
    produce(cluster, name, 1)
    member = consumer(cluster, name, name)
    member.commit(message=member.consume(1, timeout=WAIT_S)[0], asynchronous=False)
    group = admin.describe_groups([name])[name]
    assert (group["group_state"], len(group["members"])) == ("Stable", 1)
    assert name in {row["group_id"] for row in admin.list_groups()}
    member.close()
    place = Place(name, 0)
    assert admin.list_group_offsets({name: [place]})[name][place].offset == 1
    admin.delete_group_offsets(name, [place])
    assert admin.list_group_offsets({name: [place]})[name][place].offset == -1
    admin.delete_groups([name])
    assert name not in {row["group_id"] for row in admin.list_groups()}


def test_kafka_python_administers_topics(cluster: Cluster, name: str, admin: Any) -> None:
    create_topic(cluster, name)
    produce(cluster, name, 5)
    admin.create_partitions({name: 3})
    (topic,) = admin.describe_topics([name])
    assert len(topic["partitions"]) == 3
    place = Place(name, 0)
    assert admin.delete_records({place: 2})[place]["low_watermark"] == 2
    assert name in repr(admin.describe_log_dirs())
    assert len(admin.describe_cluster()["brokers"]) == 3
    assert repr(admin.describe_topic_partitions([name])).count("leader_epoch") == 3


def test_librdkafka_alters_and_describes_settings(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    entry = ConfigEntry("retention.ms", "777", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(Kind.TOPIC, name, incremental_configs=[entry])
    for future in client.incremental_alter_configs([resource]).values():
        future.result(WAIT_S)
    (described,) = client.describe_configs([ConfigResource(Kind.TOPIC, name)]).values()
    found = described.result(WAIT_S)["retention.ms"]
    assert (found.value, found.is_default, found.source) == ("777", False, 1)


def test_librdkafka_describes_groups_and_the_cluster(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    member = consumer(cluster, name, name)
    eventually(lambda: shares(member) == [1], WAIT_S)
    group = client.describe_consumer_groups([name])[name].result(WAIT_S)
    assert [len(one.assignment.topic_partitions) for one in group.members] == [1]
    assert name in {row.group_id for row in client.list_consumer_groups().result(WAIT_S).valid}
    assert len(client.describe_cluster().result(WAIT_S).nodes) == 3
    member.close()
    client.delete_consumer_groups([name])[name].result(WAIT_S)


def test_a_producer_of_librdkafka_is_described(cluster: Cluster, name: str, admin: Any) -> None:
    create_topic(cluster, name)
    writer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    writer.produce(name, b"v")
    assert writer.flush(WAIT_S) == 0
    place = Place(name, 0)
    (producer,) = admin.describe_producers([place])[place].active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (0, 0)
