"""The declaration of security: what is refused, which files are made, and what a client is told."""

from __future__ import annotations

import logging
import ssl
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

import semel
from semel.engine.embedded import Cluster
from semel.engine.self_signed import self_signed_files
from semel.engine.tls import ClientAuth, Security, Tls
from semel.errors import ConfigError, MissingExtraError
from semel.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.hardening.raw import RawClient

WAIT_S_MAX = 20.0


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("security", "protocol"),
    [
        (Security(), "PLAINTEXT"),
        (Security(tls=Tls.self_signed()), "SSL"),
        (Security(users={"a": "b"}), "SASL_PLAINTEXT"),
        (Security(tls=Tls.self_signed(), users={"a": "b"}), "SASL_SSL"),
    ],
)
def test_tls_and_users_make_the_protocol(security: Security, protocol: str) -> None:
    assert security.protocol == protocol
    assert security.client_settings(None)["security.protocol"] == protocol


def test_the_declaration_is_part_of_the_package() -> None:
    assert (semel.Security, semel.Tls) == (Security, Tls)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tls(certificate="c.pem"),
        lambda: Tls(key="k.pem"),
        lambda: Tls(ca="ca.pem"),
        lambda: Tls(certificate="c.pem", key="k.pem", client_auth="required"),
        lambda: Tls.self_signed(client_auth="maybe"),
        lambda: Security(users={"a": ""}),
        lambda: Security(users={"a": "b"}, mechanisms=["OAUTHBEARER"]),
    ],
)
def test_what_cannot_work_is_refused_at_once(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Security(users={"alice": "secret"}))


def test_settings_for_a_user_that_was_not_declared_are_refused() -> None:
    with pytest.raises(ConfigError, match="eve"):
        Security(users={"alice": "x"}).client_settings(None, user="eve")


def test_keys_are_readable_by_their_owner_only_and_the_authority_keeps_none(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    files = self_signed_files(folder, "127.0.0.1")
    assert files.client_key is not None
    assert (mode_of(folder), mode_of(files.key), mode_of(files.client_key)) == (0o700, 0o600, 0o600)
    assert sorted(path.name for path in folder.iterdir() if "PRIVATE" in path.read_text()) == [
        "broker-key.pem",
        "client-key.pem",
    ]


def test_certificates_last_over_a_restart_and_are_made_anew_for_another_host(tmp_path: Path) -> None:
    files = self_signed_files(tmp_path, "127.0.0.1")
    first = files.certificate.read_bytes()
    self_signed_files(tmp_path, "127.0.0.1")
    assert files.certificate.read_bytes() == first
    self_signed_files(tmp_path, "kafka.example")
    second = files.certificate.read_bytes()
    assert second != first
    files.certificate.write_text("damaged")
    self_signed_files(tmp_path, "kafka.example")
    assert files.certificate.read_bytes() not in (first, second)


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"] + ["cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match="tls"):
        self_signed_files(tmp_path, "127.0.0.1")


def test_tls_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("not a key")
    tls = Tls(certificate=tmp_path / "none.pem", key=tmp_path / "key.pem")
    cluster = Cluster(brokers=1, security=Security(tls=tls), data=tmp_path / "data")
    for _ in range(2):  # the second time shows that the data folder was let go
        with pytest.raises(ConfigError, match="TLS files") as caught:
            cluster.start()
        assert "none.pem" in caught.value.you_wrote


def test_given_files_serve_clients_that_show_a_certificate(tmp_path: Path) -> None:
    files = self_signed_files(tmp_path, "127.0.0.1")
    assert files.ca is not None
    tls = Tls(certificate=files.certificate, key=files.key, ca=files.ca, client_auth=ClientAuth.REQUIRED)
    context = ssl.create_default_context(cafile=files.ca)
    with Cluster(brokers=1, security=Security(tls=tls)) as cluster:
        assert cluster.client_settings["ssl.ca.location"] == str(files.ca)
        assert "ssl.key.location" not in cluster.client_settings
        assert not (cluster.data / "tls").exists()
        with pytest.raises((ssl.SSLError, ConnectionError)), RawClient(cluster.bootstrap, context=context) as client:
            client.read_frame()
        context.load_cert_chain(str(files.client_certificate), str(files.client_key))
        with RawClient(cluster.bootstrap, context=context) as client:
            assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
            assert client.socket.version() == "TLSv1.3"  # type: ignore[attr-defined]


def test_old_tls_is_refused(tmp_path: Path) -> None:
    files = self_signed_files(tmp_path, "127.0.0.1")
    context = Tls.self_signed().server_context(files)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_client_that_speaks_no_tls_is_cut_off() -> None:
    with Cluster(brokers=1, security=Security(tls=Tls.self_signed())) as cluster:
        with RawClient(cluster.bootstrap) as client:
            client.send(bytes(64))
            assert client.is_closed_by_peer()
        context = ssl.create_default_context(cafile=cluster.client_settings["ssl.ca.location"])
        with RawClient(cluster.bootstrap, context=context) as client:
            client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)


@pytest.mark.parametrize(
    ("host", "security", "warned"),
    [
        ("127.0.0.1", None, []),
        ("0.0.0.0", None, ["without TLS", "without users"]),
        ("0.0.0.0", Security(users={"a": "b"}), ["without TLS"]),
        ("0.0.0.0", Security(tls=Tls.self_signed()), ["without users"]),
        ("0.0.0.0", Security(tls=Tls.self_signed(client_auth="required")), []),
        ("0.0.0.0", Security(tls=Tls.self_signed(), users={"a": "b"}), []),
    ],
)
def test_a_port_open_to_the_network_is_warned_about(
    host: str, security: Security | None, warned: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "semel"),
        Cluster(brokers=1, host=host, advertised_host="localhost", security=security),
    ):
        pass
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == len(warned)
    assert all(part in message for part, message in zip(warned, messages, strict=True))


def test_only_loopback_is_listened_on_unless_told() -> None:
    with Cluster(brokers=1) as cluster:
        assert cluster.bootstrap.startswith("127.0.0.1:")


def test_clients_are_told_the_advertised_host() -> None:
    with Cluster(brokers=2, host="0.0.0.0", advertised_host="localhost") as cluster:
        assert [place.partition(":")[0] for place in cluster.bootstrap.split(",")] == ["localhost"] * 2
        nodes = AdminClient(dict(cluster.client_settings)).list_topics(timeout=WAIT_S_MAX).brokers.values()
        assert {node.host for node in nodes} == {"localhost"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_every_address_cannot_be_told_to_clients(host: str) -> None:
    with pytest.raises(ConfigError, match="advertised_host"):
        Cluster(brokers=1, host=host)
