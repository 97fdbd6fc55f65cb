"""What protects a connection is in force or refused: librdkafka alone would send in the clear without a word."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import semel
from semel.clients.security_settings import checked_security
from semel.clients.setting_names import Role
from semel.clients.settings import client_settings
from semel.engine.tls import Security, Tls
from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.protocol.clear_text import is_loopback

SECRET = "top-5ecret"
LOGIN = {"sasl.username": "alice", "sasl.password": SECRET}
AWAY = "kafka.example:9092"


def refusal(settings: Mapping[str, object], bootstrap: str = "127.0.0.1:9092") -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        client_settings(Role.PRODUCER, Guarantee.AT_LEAST_ONCE, bootstrap, settings)
    assert SECRET not in f"{refused.value}{refused.value.__dict__}"
    return refused.value


@pytest.mark.parametrize(
    "name",
    [
        "sasl.username",
        "sasl.password",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.secret",
        "sasl.in.the.clear",
        "oauth_cb",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    ],
)
@pytest.mark.parametrize("protocol", [None, "plaintext"])
def test_credentials_without_a_protocol_that_uses_them(name: str, protocol: str | None) -> None:
    error = refusal({name: SECRET} | ({"security.protocol": protocol} if protocol else {}))
    assert f"{name} has no effect" in str(error)
    assert error.you_want.startswith("security.protocol=")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"security.protocol": "tls"}, "security.protocol is"),
        ({"security.protocol": "ssl", **LOGIN}, "sasl.password has no effect"),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "ssl.ca.location": "x"}, "ssl.ca.location"),
        ({"security.protocol": "sasl_ssl", **LOGIN}, "sasl.mechanism is missing"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAN", **LOGIN}, "one mechanism is needed"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.mechanisms": "GSSAPI"}, "one mechanism"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "GSSAPI", **LOGIN}, "sasl.password has no effect"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER", **LOGIN}, "has no effect with"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "oauth_cb": print}, "oauth_cb has no effect"),
        ({"security.protocol": "ssl", "ssl.certificate.location": "x"}, "no effect alone"),
        ({"security.protocol": "ssl", "ssl.key.pem": SECRET}, "no effect alone"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, object], words: str) -> None:
    assert words in str(refusal(settings))


@pytest.mark.parametrize("mechanism", ["PLAIN", "oauthbearer"])
def test_what_shows_the_password_needs_tls_loopback_or_leave(mechanism: str) -> None:
    settings: dict[str, object] = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": mechanism}
    settings |= LOGIN if mechanism == "PLAIN" else {"oauth_cb": print}
    for bootstrap in (AWAY, f"localhost:1,{AWAY}", f"[2001:db8::1]:1,{AWAY}", "10.0.0.1"):
        error = refusal(settings, bootstrap)
        assert "unencrypted" in str(error)
        assert "sasl.in.the.clear=allowed" in error.you_want
    assert "sasl.mechanisms" in checked_security({"bootstrap.servers": "SASL_PLAINTEXT://[::1]:1", **settings})
    leave = checked_security({"bootstrap.servers": AWAY, "sasl.in.the.clear": "allowed", **settings})
    assert "sasl.in.the.clear" not in leave, "librdkafka does not know it"
    assert "is 'yes'" in str(refusal({**settings, "sasl.in.the.clear": "yes"}))
    assert "encrypted" in str(refusal({**settings, "security.protocol": "sasl_ssl", "sasl.in.the.clear": "allowed"}))


def test_scram_does_not_show_the_password() -> None:
    settings = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512", **LOGIN}
    assert checked_security({"bootstrap.servers": AWAY, **settings})["sasl.password"] == SECRET
    assert "no effect here" in str(refusal({**settings, "sasl.in.the.clear": "allowed"}))


def test_a_client_secret_goes_over_https() -> None:
    settings = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.secret": SECRET,
    }
    url = "sasl.oauthbearer.token.endpoint.url"
    assert "login.example unencrypted" in str(refusal(settings | {url: f"http://ann:{SECRET}@login.example/token"}))
    assert checked_security(settings | {url: "http://127.0.0.1:8080/token"})
    assert checked_security(settings | {url: "https://login.example/token"})


@pytest.mark.parametrize(
    ("host", "stays"),
    [
        ("localhost", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("127.0.0.1.example", False),
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_what_stays_on_this_machine(host: str, stays: bool) -> None:
    assert is_loopback(host) is stays


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_settings_of_a_secured_cluster_pass_and_work(mechanism: str) -> None:
    security = Security(tls=Tls.self_signed(), users={"alice": SECRET})
    with semel.Cluster(brokers=1, topics=["orders:1:1"], security=security) as cluster:
        settings = cluster.client_settings_of(mechanism=mechanism)
        with semel.Producer(cluster.bootstrap, guarantee="at_least_once", settings=settings) as producer:
            assert producer.send("orders", b"1").result().offset == 0
