"""SASL on a connection: what is served before authentication, and how refusals look on the wire."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

from semel.broker.network.server import Server
from semel.engine.embedded import Cluster
from semel.engine.tls import Security
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from semel.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from semel.world.network import Connection
from tests.hardening.raw import WAIT_S_MAX, RawClient, header, request_frame, sized
from tests.hardening.requests import METADATA_VERSION, check_served, metadata

PASSWORD = "very-secret-indeed"
TOKEN = f"\0alice\0{PASSWORD}".encode()
LARGE_BYTES = 600_000
TURNS = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    security = Security(users={"alice": PASSWORD}, mechanisms=["PLAIN", "SCRAM-SHA-256"])
    with Cluster(brokers=1, topics=["quiet"], security=security) as running:
        yield running


@pytest.fixture
def client(cluster: Cluster) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap) as connected:
        yield connected


def shake(client: RawClient, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
    return client.ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, version)


def authenticate(client: RawClient, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    return client.ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain_opens_the_connection(client: RawClient, version: int) -> None:
    assert shake(client).error_code == ErrorCode.NONE
    answer = authenticate(client, TOKEN, version)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (ErrorCode.NONE, b"", 0)
    check_served(client)


def test_api_versions_is_answered_before_authentication(client: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    answer = client.ask(request, ApiVersionsResponse, 3)
    assert {17, 36} <= {row.api_key for row in answer.api_keys}


def test_anything_else_before_authentication_ends_the_connection(client: RawClient) -> None:
    client.send(request_frame(metadata(), METADATA_VERSION))
    assert client.is_closed_by_peer()


def test_a_handshake_alone_opens_nothing(client: RawClient) -> None:
    shake(client)
    client.send(request_frame(metadata(), METADATA_VERSION))
    assert client.is_closed_by_peer()


def test_a_request_that_came_with_a_wrong_password_is_not_served(client: RawClient) -> None:
    shake(client)
    refused = request_frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0x"), 2)
    client.send(refused + request_frame(metadata(), METADATA_VERSION))
    assert client.read_response(SaslAuthenticateResponse, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(ConnectionError):
        client.read_response(MetadataResponse, METADATA_VERSION)


def test_bodies_are_not_even_decoded_before_authentication(client: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "semel.broker"):
        client.send(sized(header(3, METADATA_VERSION) + b"\0\xff\xff\xff"))
        assert client.is_closed_by_peer()
    assert "before authentication" in caplog.text


def test_large_requests_are_refused_before_authentication_as_soon_as_they_are_announced(client: RawClient) -> None:
    client.send(LARGE_BYTES.to_bytes(4, "big"))
    assert client.is_closed_by_peer()


def test_large_requests_are_refused_that_come_before_their_connection_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    announced, serve = threading.Event(), Server.serve

    async def serve_late(self: Server, connection: Connection) -> None:
        assert await asyncio.to_thread(announced.wait, WAIT_S_MAX)
        for _ in range(TURNS):  # what is sent on this machine is there, and the loop looks once in a turn
            await asyncio.sleep(0)
        await serve(self, connection)

    monkeypatch.setattr(Server, "serve", serve_late)
    security = Security(users={"alice": PASSWORD}, mechanisms=["PLAIN"])
    with Cluster(brokers=1, security=security) as running, RawClient(running.bootstrap) as client:
        client.send(LARGE_BYTES.to_bytes(4, "big"))
        announced.set()
        assert client.is_closed_by_peer()


def test_large_requests_are_read_after_authentication(client: RawClient) -> None:
    shake(client)
    assert authenticate(client, TOKEN).error_code == ErrorCode.NONE
    names = [MetadataRequestTopic(name="x" * 249) for _ in range(LARGE_BYTES // 249)]
    client.send(request_frame(MetadataRequest(topics=names, allow_auto_topic_creation=False), METADATA_VERSION))
    assert len(client.read_response(MetadataResponse, METADATA_VERSION).topics) == 1


def test_a_token_without_a_handshake_ends_the_connection(client: RawClient) -> None:
    client.send(request_frame(SaslAuthenticateRequest(auth_bytes=TOKEN), 2))
    assert client.is_closed_by_peer()


def test_an_unknown_mechanism_is_told_which_there_are(client: RawClient) -> None:
    answer = shake(client, "SCRAM-SHA-512")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert list(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-256"]
    assert client.is_closed_by_peer()


def test_wrong_credentials_are_refused_and_the_connection_closed(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    shake(client)
    with caplog.at_level(logging.DEBUG):
        answer = authenticate(client, f"\0alice\0{PASSWORD}x".encode())
        assert client.is_closed_by_peer()
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert "did not authenticate" in caplog.text
    assert PASSWORD not in caplog.text


def test_authenticating_twice_is_refused_and_harmless(client: RawClient) -> None:
    shake(client)
    authenticate(client, TOKEN)
    assert shake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(client, TOKEN).error_code == ErrorCode.ILLEGAL_SASL_STATE
    check_served(client)


def test_a_second_handshake_before_the_token_ends_the_connection(client: RawClient) -> None:
    shake(client)
    assert shake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_closed_by_peer()


def test_after_handshake_0_tokens_come_bare(client: RawClient) -> None:
    assert shake(client, version=0).error_code == ErrorCode.NONE
    client.send(sized(TOKEN))
    assert client.read_frame() == b""
    check_served(client)


def test_a_wrong_bare_token_ends_the_connection_without_a_word(client: RawClient) -> None:
    shake(client, version=0)
    client.send(sized(b"\0alice\0wrong"))
    with pytest.raises(ConnectionError, match="after 0 of 4"):
        client.read_frame()


def test_without_users_there_is_nothing_to_authenticate() -> None:
    with Cluster(brokers=1, topics=["quiet"]) as cluster, RawClient(cluster.bootstrap) as client:
        assert shake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert authenticate(client, TOKEN).error_code == ErrorCode.ILLEGAL_SASL_STATE
        check_served(client)
