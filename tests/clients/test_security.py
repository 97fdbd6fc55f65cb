"""TLS and passwords with real clients: let in with the right ones, kept out with the wrong ones."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import semel
from semel.engine.tls import Security, Tls
from semel.protocol.error_codes import ErrorCode
from tests.clients.choice import NAMES, OLD_JAVA, Jvms, make_driver
from tests.clients.drivers.interface import Endpoint, Refused, Sent

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = {"alice": 'a "secret\\'}
EVERYBODY = (*NAMES, OLD_JAVA)
CONFIG = {"log.retention.ms": "-1"}


@pytest.fixture(scope="module")
def tls() -> Iterator[semel.Cluster]:
    topics = [f"tls-{name}" for name in EVERYBODY]
    with semel.Cluster(brokers=3, topics=topics, config=CONFIG, security=Security(tls=Tls.self_signed())) as started:
        yield started


@pytest.fixture(scope="module")
def tls_and_users() -> Iterator[semel.Cluster]:
    topics = [f"{mechanism}-{name}" for mechanism in MECHANISMS for name in EVERYBODY]
    security = Security(tls=Tls.self_signed(), users=USERS)
    with semel.Cluster(brokers=3, topics=topics, config=CONFIG, security=security) as started:
        yield started


def _endpoint(cluster: semel.Cluster, mechanism: str | None = None) -> Endpoint:
    settings = cluster.client_settings_of(mechanism=mechanism)
    return Endpoint(
        bootstrap=settings["bootstrap.servers"],
        protocol=settings["security.protocol"],
        ca_file=settings.get("ssl.ca.location"),
        mechanism=settings.get("sasl.mechanism"),
        user=settings.get("sasl.username"),
        password=settings.get("sasl.password"),
    )


def _write_and_read(name: str, endpoint: Endpoint, jvms: Jvms, topic: str) -> None:
    driver = make_driver(name, endpoint, jvms)
    try:
        records = [Sent(key=b"%d" % number, value=b"v" * 40_000) for number in range(5)]
        assert driver.produce(topic, records, idempotent=True) == list(range(5))
        assert [one.sent for one in driver.consume(topic, {0: 0}, 5)] == records
    finally:
        driver.close()


@pytest.mark.parametrize("name", EVERYBODY)
def test_tls(tls: semel.Cluster, jvms: Jvms, name: str) -> None:
    _write_and_read(name, _endpoint(tls), jvms, f"tls-{name}")


@pytest.mark.quick(5)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", EVERYBODY)
def test_password_over_tls(tls_and_users: semel.Cluster, jvms: Jvms, name: str, mechanism: str) -> None:
    _write_and_read(name, _endpoint(tls_and_users, mechanism), jvms, f"{mechanism}-{name}")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["java", OLD_JAVA])
def test_java_is_told_that_its_password_is_wrong(
    tls_and_users: semel.Cluster, jvms: Jvms, name: str, mechanism: str
) -> None:
    """By the broker: with SCRAM a client that was let in would itself notice that the broker has another password."""
    wrong = replace(_endpoint(tls_and_users, mechanism), password="not hers")
    with pytest.raises(Refused, match=r"Invalid username or password|invalid credentials") as refused:
        make_driver(name, wrong, jvms).produce(f"{mechanism}-{name}", [Sent(key=b"k")])
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_java_does_not_trust_a_stranger_s_certificate(tls: semel.Cluster, jvms: Jvms) -> None:
    with pytest.raises(Refused, match="SslAuthenticationException"):
        make_driver("java", replace(_endpoint(tls), ca_file=None), jvms).produce("tls-java", [Sent(key=b"k")])
