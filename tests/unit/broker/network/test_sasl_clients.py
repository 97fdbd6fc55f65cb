"""Real clients over TLS and SASL: librdkafka, kafka-python and aiokafka write and are refused as they should be."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiokafka
import aiokafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them without saying so
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from semel.engine.embedded import Cluster
from semel.engine.tls import Security, Tls
from semel.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.hardening.raw import RawClient
from tests.support.waiting import eventually

WAIT_S_MAX = 30.0
USERS = {"alice": "her secret", "bob": "his, =secret"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def plain() -> Iterator[Cluster]:
    with Cluster(brokers=2, topics=["orders:2"], security=Security(users=USERS)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def encrypted() -> Iterator[Cluster]:
    security = Security(tls=Tls.self_signed(client_auth="required"), users=USERS)
    with Cluster(brokers=2, topics=["orders:2"], security=security) as cluster:
        yield cluster


def produce(settings: Mapping[str, str]) -> None:
    """Write one record with librdkafka to each partition."""
    failures: list[object] = []
    producer = Producer({**settings, "log_level": 0})
    for partition in range(2):
        producer.produce("orders", b"x", partition=partition, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(WAIT_S_MAX) == 0
    assert failures == [None, None]


def refusal(settings: Mapping[str, str]) -> KafkaError:
    """The error that a librdkafka client reports."""
    errors: list[KafkaError] = []
    producer = Producer({**settings, "log_level": 0}, error_cb=errors.append)
    wanted = (KafkaError._AUTHENTICATION, KafkaError._SSL)

    def fatal() -> list[KafkaError]:
        producer.poll(0.1)
        return [error for error in errors if error.code() in wanted]

    return eventually(fatal, WAIT_S_MAX, what="the client is refused")[0]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes_over_sasl(plain: Cluster, user: str, mechanism: str) -> None:
    settings = plain.client_settings_of(user, mechanism)
    assert settings["security.protocol"] == "SASL_PLAINTEXT"
    produce(settings)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes_over_sasl_and_tls(encrypted: Cluster, mechanism: str) -> None:
    settings = encrypted.client_settings_of(mechanism=mechanism)
    assert settings["security.protocol"] == "SASL_SSL"
    produce(settings)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("wrong", [{"sasl.password": "guess"}, {"sasl.username": "eve"}])
def test_librdkafka_is_refused(plain: Cluster, mechanism: str, wrong: dict[str, str]) -> None:
    error = refusal(plain.client_settings_of("alice", mechanism) | wrong)
    assert error.code() == KafkaError._AUTHENTICATION
    assert "Authentication failed" in error.str()


def test_a_client_without_a_certificate_is_refused(encrypted: Cluster) -> None:
    ca = encrypted.client_settings["ssl.ca.location"]
    unknown = ssl.create_default_context(cafile=ca)
    with pytest.raises((ssl.SSLError, ConnectionError)), RawClient(encrypted.bootstrap, context=unknown) as client:
        client.read_frame()
    with RawClient(encrypted.bootstrap, context=client_context(encrypted.client_settings)) as client:
        client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)


def test_a_client_that_trusts_another_authority_refuses_the_broker(encrypted: Cluster) -> None:
    with Cluster(brokers=1, security=Security(tls=Tls.self_signed())) as other:
        foreign = other.client_settings["ssl.ca.location"]
        assert refusal(encrypted.client_settings | {"ssl.ca.location": foreign}).code() == KafkaError._SSL


def client_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings["ssl.ca.location"])
    context.load_cert_chain(settings["ssl.certificate.location"], settings["ssl.key.location"])
    return context


def python_settings(cluster: Cluster, mechanism: str) -> dict[str, object]:
    """The same settings by the names that the Python clients share."""
    own = cluster.client_settings_of("bob", mechanism)
    context = {"ssl_context": client_context(own)} if "ssl.ca.location" in own else {}
    return context | {
        "bootstrap_servers": own["bootstrap.servers"],
        "security_protocol": own["security.protocol"],
        "sasl_mechanism": mechanism,
        "sasl_plain_username": own["sasl.username"],
        "sasl_plain_password": own["sasl.password"],
    }


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # kafka-python does
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes(plain: Cluster, encrypted: Cluster, mechanism: str) -> None:
    import kafka

    for cluster in (plain, encrypted):
        producer = kafka.KafkaProducer(**python_settings(cluster, mechanism))
        assert producer.send("orders", b"x", partition=0).get(WAIT_S_MAX).offset >= 0
        producer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_writes(plain: Cluster, encrypted: Cluster, mechanism: str) -> None:
    async def write(cluster: Cluster) -> int:
        producer = aiokafka.AIOKafkaProducer(**python_settings(cluster, mechanism))
        await producer.start()
        try:
            offset = (await producer.send_and_wait("orders", b"x", partition=0)).offset
            assert isinstance(offset, int)
            return offset
        finally:
            await producer.stop()

    assert asyncio.run(write(plain)) >= 0
    assert asyncio.run(write(encrypted)) >= 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_is_refused(plain: Cluster, mechanism: str) -> None:
    async def start() -> None:
        settings = python_settings(plain, mechanism) | {"sasl_plain_password": "guess"}
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(start())


def test_scram_users_come_and_go_and_outlive_a_restart(tmp_path: Path) -> None:
    security = Security(users=USERS, mechanisms=MECHANISMS)
    with Cluster(brokers=1, topics=["orders:2"], data=tmp_path, security=security) as cluster:
        admin = AdminClient({**cluster.client_settings, "log_level": 0})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
        changes: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion("carol", info, b"first"),
            UserScramCredentialUpsertion("dave", info, b"d"),
        ]
        alter(admin, changes)
        produce(as_carol(cluster, "first"))
        alter(admin, [UserScramCredentialUpsertion("carol", info, b"second")])
        assert refusal(as_carol(cluster, "first")).code() == KafkaError._AUTHENTICATION
        assert described(admin) == {"carol": [("SCRAM_SHA_512", 8192)], "dave": [("SCRAM_SHA_512", 8192)]}
    with Cluster(brokers=1, data=tmp_path, security=security) as cluster:
        produce(as_carol(cluster, "second"))
        admin = AdminClient({**cluster.client_settings, "log_level": 0})
        alter(admin, [UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_512)])
        assert list(described(admin)) == ["dave"]
        assert refusal(as_carol(cluster, "second")).code() == KafkaError._AUTHENTICATION


def as_carol(cluster: Cluster, password: str) -> dict[str, str]:
    own = cluster.client_settings_of(mechanism="SCRAM-SHA-512")
    return own | {"sasl.username": "carol", "sasl.password": password}


def alter(admin: AdminClient, changes: list[UserScramCredentialAlteration]) -> None:
    for future in admin.alter_user_scram_credentials(changes).values():
        future.result(WAIT_S_MAX)


def described(admin: AdminClient) -> dict[str, list[tuple[str, int]]]:
    future = admin.describe_user_scram_credentials()
    assert not isinstance(future, dict)
    users = future.result(WAIT_S_MAX)
    return {
        name: [(info.mechanism.name, info.iterations) for info in user.scram_credential_infos]
        for name, user in sorted(users.items())
    }


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_256), KafkaError.RESOURCE_NOT_FOUND),
        (
            UserScramCredentialUpsertion("x", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4095), b"p"),
            KafkaError.UNACCEPTABLE_CREDENTIAL,
        ),
        (
            UserScramCredentialUpsertion("x", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 16385), b"p"),
            KafkaError.UNACCEPTABLE_CREDENTIAL,
        ),
    ],
)
def test_bad_changes_of_scram_users_are_refused(
    plain: Cluster, change: UserScramCredentialAlteration, code: int
) -> None:
    admin = AdminClient({**plain.client_settings, "log_level": 0})
    with pytest.raises(KafkaException) as caught:
        alter(admin, [change])
    assert caught.value.args[0].code() == code
    futures = admin.describe_user_scram_credentials(["x"])
    assert isinstance(futures, dict)
    with pytest.raises(KafkaException) as caught:
        futures["x"].result(WAIT_S_MAX)
    assert caught.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND
