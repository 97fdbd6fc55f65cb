"""Client libraries with and without rights, and entries made by librdkafka's administration client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

import semel
from semel.protocol.error_codes import ErrorCode
from tests.acls.rights import PASSWORDS, Right
from tests.acls.test_entries import talk_to
from tests.acls.user_talk import UserTalk
from tests.clients.choice import NAMES, Jvms, make_driver
from tests.clients.drivers.interface import Endpoint, Refused, Sent

WAIT_S_MAX = 30.0
JAVA = pytest.param("java", marks=pytest.mark.full)
LIBRARIES = [JAVA if name == "java" else name for name in NAMES]


@pytest.fixture(scope="module")
def jvms() -> Iterator[Jvms]:
    started = Jvms()
    yield started
    started.close()


@pytest.fixture
def talk(embedded_cluster: semel.Cluster) -> Iterator[UserTalk]:
    talk = talk_to(embedded_cluster)
    talk.let(())
    yield talk
    talk.let(())
    talk.close()


def _admin(cluster: semel.Cluster, user: str) -> AdminClient:
    return AdminClient({**cluster.client_settings_of(user)})


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_writes_and_reads_with_its_rights(
    embedded_cluster: semel.Cluster, talk: UserTalk, jvms: Jvms, name: str
) -> None:
    topic = f"library-{name}"
    admin = _admin(embedded_cluster, "admin")
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(WAIT_S_MAX)
    endpoint = Endpoint(
        bootstrap=embedded_cluster.bootstrap,
        protocol="SASL_PLAINTEXT",
        mechanism="PLAIN",
        user="app",
        password=PASSWORDS["app"],
    )
    records = [Sent(key=b"k", value=b"v")]
    with closing(make_driver(name, endpoint, jvms)) as driver, pytest.raises(Refused) as refused:
        driver.produce(topic, records)
    assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    # librdkafka looks for the coordinator of its group even when partitions are assigned by hand.
    talk.let([Right("WRITE", "TOPIC", topic), Right("READ", "TOPIC", topic), Right("READ", "GROUP", "*")])
    with closing(make_driver(name, endpoint, jvms)) as driver:
        assert driver.produce(topic, records) == [0]
        assert [one.sent for one in driver.consume(topic, {0: 0}, 1)] == records


def test_entries_made_by_librdkafka(embedded_cluster: semel.Cluster, talk: UserTalk) -> None:
    entry = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.PREFIXED,
        "User:app",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    every = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]
        ResourcePatternType.ANY,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    app, admin = _admin(embedded_cluster, "app"), _admin(embedded_cluster, "admin")
    with pytest.raises(KafkaException) as refused:
        app.create_acls([entry])[entry].result(WAIT_S_MAX)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert admin.create_acls([entry])[entry].result(WAIT_S_MAX) is None
    assert admin.describe_acls(every).result(WAIT_S_MAX) == [entry]
    assert admin.delete_acls([every])[every].result(WAIT_S_MAX) == [entry]
    assert admin.describe_acls(every).result(WAIT_S_MAX) == []
