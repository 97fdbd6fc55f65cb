"""TLS, client certificates and SASL against an embedded cluster, and brokers that only pretend."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from semel.engine.embedded import Cluster
from semel.engine.tls import Security, Tls
from semel.errors import BrokerError, ConfigError, ConnectionFailure, SemelError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import decode
from semel.protocol.messages.request_header import RequestHeader
from semel.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from semel.wire.cluster import WireCluster
from semel.wire.produce import send_batches
from semel.wire.transaction import TransactionClient
from tests.support.waiting import eventually
from tests.wire.conftest import MakeClient
from tests.wire.fake_broker import Answer, fake_broker, framed, usual
from tests.wire.records import batches_of, expected, partitions_of, values_in

PASSWORD = "alice-5ecret,=\\\"';"
USERS = {"alice": PASSWORD, "b=o,b": "x"}


@pytest.fixture(scope="module")
def both() -> Iterator[Cluster]:
    """TLS and users."""
    with Cluster(brokers=1, topics=["t:2"], security=Security(tls=Tls.self_signed(), users=USERS)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def mutual() -> Iterator[Cluster]:
    """Client certificates are wanted."""
    with Cluster(brokers=1, topics=["t:2"], security=Security(tls=Tls.self_signed(client_auth="required"))) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def users() -> Iterator[Cluster]:
    """Users without TLS."""
    with Cluster(brokers=1, topics=["t:2"], security=Security(users=USERS)) as cluster:
        yield cluster


def options_of(cluster: Cluster, user: str | None = None, mechanism: str | None = None) -> dict[str, str]:
    return {
        name.replace("bootstrap.servers", "bootstrap"): value
        for name, value in cluster.client_settings_of(user, mechanism).items()
    }


def topics_of(client: WireCluster, ms: float = 10_000) -> list[str]:
    return sorted(client.topics(client.deadline(ms)))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", list(USERS))
def test_a_user_logs_in(users: Cluster, client_of: MakeClient, mechanism: str, user: str) -> None:
    assert topics_of(client_of(**options_of(users, user, mechanism))) == ["t"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_user_logs_in_over_tls_and_moves_data(both: Cluster, client_of: MakeClient, mechanism: str) -> None:
    options = options_of(both, "alice", mechanism)
    options.pop("ssl.certificate.location")
    options.pop("ssl.key.location")
    client = client_of(**options)
    transaction = TransactionClient(client, f"tls-{mechanism}", timeout_ms=60_000)
    who = replace(transaction.begin(client.deadline()), transactional_id=None)
    places = partitions_of("t", 2)
    before = len(values_in(client, places[0]))
    sent = send_batches(client, batches_of(places, 40, records=500), producer=who, deadline=client.deadline())
    assert [each.records for each in sent.values()] == [20_000, 20_000]
    assert values_in(client, places[0])[before:] == expected(40, records=500)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("user", "password"), [("alice", "wr0ng"), ("nobody", "wr0ng")])
def test_a_wrong_password_is_said_at_once_and_not_shown(
    users: Cluster, client_of: MakeClient, mechanism: str, user: str, password: str
) -> None:
    options = options_of(users, None, mechanism) | {"sasl.username": user, "sasl.password": password}
    client = client_of(**options)
    deadline = client.deadline(60_000)
    with pytest.raises(BrokerError, match=f"refused user '{user}'") as refused:
        client.topics(deadline)
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert password not in str(refused.value)
    assert deadline.left_ms > 30_000  # not asked again until the deadline


def test_a_mechanism_that_is_not_offered_is_named(client_of: MakeClient) -> None:
    with Cluster(brokers=1, security=Security(users=USERS, mechanisms=["PLAIN"])) as cluster:
        client = client_of(**options_of(cluster) | {"sasl.mechanism": "SCRAM-SHA-256"})
        with pytest.raises(BrokerError, match="SCRAM-SHA-256") as refused:
            topics_of(client)
        assert "PLAIN" in refused.value.because


def test_a_client_certificate_lets_in(mutual: Cluster, client_of: MakeClient, tmp_path: Path) -> None:
    options = options_of(mutual)
    assert topics_of(client_of(**options)) == ["t"]
    pair = tmp_path / "pair.pem"
    certificate, key = options.pop("ssl.certificate.location"), options.pop("ssl.key.location")
    pair.write_text(Path(key).read_text() + Path(certificate).read_text())
    assert topics_of(client_of(**options, **{"ssl.keystore.location": str(pair)})) == ["t"]


def test_without_a_client_certificate_nobody_gets_in(mutual: Cluster, client_of: MakeClient) -> None:
    options = options_of(mutual)
    del options["ssl.certificate.location"], options["ssl.key.location"]
    with pytest.raises(ConnectionFailure, match="no broker can be reached"):
        topics_of(client_of(**options), 500)


def test_an_authority_as_text(both: Cluster, client_of: MakeClient) -> None:
    options = options_of(both)
    options["ssl.truststore.certificates"] = Path(options.pop("ssl.ca.location")).read_text()
    assert "t" in topics_of(client_of(**options))


def test_an_unknown_authority_is_a_matter_of_settings(both: Cluster, client_of: MakeClient) -> None:
    options = options_of(both)
    del options["ssl.ca.location"]
    with pytest.raises(ConfigError, match="not trusted") as refused:
        topics_of(client_of(**options))
    assert "ssl.ca.location" in refused.value.you_want


def test_the_host_name_is_checked_unless_told_otherwise(both: Cluster, client_of: MakeClient) -> None:
    options = options_of(both)
    options["bootstrap"] = options["bootstrap"].replace("127.0.0.1", "127.1")  # the same address under another name
    with pytest.raises(ConfigError, match=r"127\.1:\d+ is not trusted"):
        topics_of(client_of(**options))
    assert "t" in topics_of(client_of(**options, **{"ssl.endpoint.identification.algorithm": ""}))


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.certificate.location"])
def test_tls_files_that_are_none_are_named(both: Cluster, client_of: MakeClient, name: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    for wrong in (str(empty), str(tmp_path / "missing.pem")):
        with pytest.raises(ConfigError, match="TLS files cannot be used") as refused:
            topics_of(client_of(**options_of(both) | {name: wrong}))
        assert wrong in refused.value.you_wrote


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_the_wrong_protocol_is_said_within_the_deadline(
    both: Cluster, users: Cluster, client_of: MakeClient, protocol: str
) -> None:
    bootstrap = both.bootstrap if protocol == "PLAINTEXT" else users.bootstrap
    client = client_of(bootstrap, security_protocol=protocol)
    with pytest.raises(SemelError) as failed:
        topics_of(client, 1_500)
    assert "TLS" in str(failed.value)


def test_a_login_that_is_missing_is_said_within_the_deadline(users: Cluster, client_of: MakeClient) -> None:
    with pytest.raises(ConnectionFailure):
        topics_of(client_of(users.bootstrap), 500)


def sasl_script(*answers: SaslAuthenticateResponse, seen: list[bytes]) -> Answer:
    left = list(answers)

    def answer(header: RequestHeader, body: memoryview) -> bytes | None:
        if header.request_api_key == SaslHandshakeRequest.API_KEY:
            return framed(header.correlation_id, SaslHandshakeResponse(), header.request_api_version)
        assert header.request_api_key == SaslAuthenticateRequest.API_KEY
        seen.append(decode(SaslAuthenticateRequest, body, header.request_api_version).auth_bytes)
        return framed(header.correlation_id, left.pop(0), header.request_api_version)

    return usual(answer, last=1)


def test_a_broker_that_cannot_prove_itself_is_refused(client_of: MakeClient) -> None:
    seen: list[bytes] = []
    forged = SaslAuthenticateResponse(auth_bytes=b"r=guess,s=QUJD,i=4096")
    with fake_broker(sasl_script(forged, seen=seen)) as address:
        login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "alice", "sasl_password": PASSWORD}
        client = client_of(address, security_protocol="SASL_PLAINTEXT", **login)
        with pytest.raises(BrokerError, match="nonce"):
            topics_of(client)
    assert PASSWORD.encode() not in b"".join(seen)


def test_a_broker_on_loopback_that_points_elsewhere_gets_no_password(client_of: MakeClient) -> None:
    security = Security(users=USERS)
    with Cluster(brokers=1, topics=["t:2"], advertised_host="kafka.example", security=security) as cluster:
        options = options_of(cluster, "alice", "PLAIN")
        options["bootstrap"] = options["bootstrap"].replace("kafka.example", "127.0.0.1")
        client = client_of(**options)
        assert topics_of(client) == ["t"]  # from the loopback address
        with pytest.raises(ConfigError, match=r"kafka\.example unencrypted"):
            client.connection(1, client.deadline())
        scram = client_of(**options | {"sasl.mechanism": "SCRAM-SHA-256"})
        assert topics_of(scram) == ["t"]
        with pytest.raises(ConnectionFailure, match=r"kafka\.example"):
            scram.connection(1, scram.deadline(500))


def token() -> str:
    return "to.k-en"


def oauth_client(client_of: MakeClient, address: str, monkeypatch: pytest.MonkeyPatch) -> WireCluster:
    module = types.ModuleType("tokens_for_tests")
    vars(module)["fresh"] = token
    monkeypatch.setitem(sys.modules, "tokens_for_tests", module)
    options = {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "tokens_for_tests:fresh"}
    return client_of(address, security_protocol="SASL_PLAINTEXT", **options)


def test_a_refused_token_is_said(client_of: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    challenge = SaslAuthenticateResponse(auth_bytes=b'{"status":"expired"}')
    script = sasl_script(challenge, SaslAuthenticateResponse(), seen=seen)
    with fake_broker(script) as address, pytest.raises(BrokerError, match="expired"):
        topics_of(oauth_client(client_of, address, monkeypatch))
    assert seen == [b"n,,\1auth=Bearer to.k-en\1\1", b"\1"]


def test_a_login_that_is_about_to_end_is_renewed(client_of: MakeClient) -> None:
    seen: list[bytes] = []
    short, long = (SaslAuthenticateResponse(session_lifetime_ms=ms) for ms in (1, 600_000))
    with fake_broker(sasl_script(short, long, seen=seen)) as address:
        login = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "x"}
        client = client_of(address, security_protocol="SASL_PLAINTEXT", **login)
        first = client.any_connection(client.deadline())
        eventually(lambda: not first.usable)
        second = client.any_connection(client.deadline())
        assert second is not first
        assert second.usable
        assert client.any_connection(client.deadline()) is second
        client.close()
    assert seen == [b"\0alice\0x"] * 2
