"""The same hostile frames for Apache Kafka and the embedded cluster: what the one refuses, the other refuses too.

Both hear the same frames in the same order, so they know the same topics and groups. A refusal is a closed connection
or an answer with an error code.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import pytest

import semel
from semel.broker.network.registry import AnyApi
from semel.errors import EnvironmentFailure, ProtocolError
from semel.protocol.message import Message, decode_at
from semel.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.acls.conftest import ApacheWithUsers
from tests.acls.rights import PASSWORDS
from tests.hardening.generated import Extremes, served_apis
from tests.hardening.raw import API_VERSIONS_KEY, RawClient, header, request_frame, sized
from tests.hardening.requests import sign_in
from tests.support.waiting import eventually

pytestmark = pytest.mark.full

WHOLE_PER_VERSION = 3
APACHE_WAIT_S_MAX = 1.0  # who has not answered by then has not refused


class Outcome(Enum):
    """What became of one frame."""

    CLOSED = "closed"
    ERROR = "error"
    ANSWERED = "answered"
    WAITING = "waiting"

    @property
    def is_refusal(self) -> bool:
        """Whether the client was told no."""
        return self in (Outcome.CLOSED, Outcome.ERROR)


@dataclass(frozen=True, slots=True)
class Sent:
    """One frame: what it is called, the API whose answer is to be read, in which version."""

    name: str
    api: AnyApi
    version: int
    frame: bytes


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[str, str]]:
    """The addresses of both clusters, the embedded one first; clients authenticate."""
    apache = ApacheWithUsers()
    try:
        apache.start()
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka cannot be started here: {failure}")
    try:
        settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
        settings |= {"super.users": "User:admin", "auto.create.topics.enable": "false"}
        with semel.Cluster(brokers=1, config=settings, security=semel.Security(users=PASSWORDS)) as embedded:
            _await_producer_ids(apache.bootstrap)
            yield embedded.bootstrap, apache.bootstrap
    finally:
        apache.stop()


def _await_producer_ids(bootstrap: str) -> None:
    """A node of Apache Kafka refuses the first producers while it asks its controller for a block of ids."""
    with RawClient(bootstrap) as client:
        sign_in(client, "admin", PASSWORDS["admin"])
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
        eventually(lambda: client.ask(request, InitProducerIdResponse, 4).error_code == 0, what="a block of ids")


def served_by(bootstrap: str) -> dict[int, tuple[int, int]]:
    """The versions that a cluster says it serves."""
    with RawClient(bootstrap) as client:
        request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        answer = client.ask(request, ApiVersionsResponse, 3)
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def corpus(api: AnyApi, first: int, last: int) -> Iterator[Sent]:
    """Frames of one API: at the extremes of its fields, cut, padded, nested too deep, and of nobody knows what."""
    rng = random.Random(api.key)
    drawn = Extremes(rng)
    for version in sorted({first, (first + last) // 2, last}):
        for number in range(WHOLE_PER_VERSION):
            frame = request_frame(drawn.message(api.request, version), version)
            yield Sent(f"{api.name} v{version} extreme {number}", api, version, frame)
        body = request_frame(drawn.message(api.request, version), version)[4:]
        head = len(header(api.key, version))
        yield Sent(
            f"{api.name} v{version} cut", api, version, sized(body[: rng.randrange(head, max(len(body), head + 1))])
        )
        yield Sent(f"{api.name} v{version} many", api, version, sized(body[: head + 1] + b"\x7f\xff\xff\xff" * 3))
        yield Sent(f"{api.name} v{version} random", api, version, sized(body[:head] + rng.randbytes(60)))
    yield Sent(f"{api.name} v{last + 1}", api, last, sized(header(api.key, 30_000) + bytes(30)))


def outcome_of(client: RawClient, sent: Sent, wait_s_max: float) -> Outcome:
    """Read what is answered."""
    client.socket.settimeout(wait_s_max)
    try:
        frame = client.read_frame()
    except ConnectionError:
        return Outcome.CLOSED
    except TimeoutError:
        return Outcome.WAITING
    tagged = sent.version >= sent.api.response.FLEXIBLE_FROM and sent.api.key != API_VERSIONS_KEY
    try:
        answer = decode_at(sent.api.response, frame, sent.version, 5 if tagged else 4)[0]
    except ProtocolError:
        return Outcome.ERROR  # ApiVersions answers an unknown version in its oldest one
    return Outcome.ERROR if has_error(answer) else Outcome.ANSWERED


def has_error(message: Message) -> bool:
    """Whether there is an error code anywhere in an answer."""
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if "error_code" in field.name and value:
            return True
        rows = value if field.array else [value]
        if field.message is not None and any(has_error(row) for row in rows or () if row is not None):
            return True
    return False


def outcomes(sides: tuple[str, str], sent: Sent, *, signed_in: bool) -> tuple[Outcome, Outcome]:
    """Send to both; the embedded cluster is waited for where Apache Kafka has refused."""
    with RawClient(sides[0]) as ours, RawClient(sides[1]) as theirs:
        for client in (ours, theirs):
            if signed_in:
                sign_in(client, "admin", PASSWORDS["admin"])
            client.send(sent.frame)
        apache = outcome_of(theirs, sent, APACHE_WAIT_S_MAX)
        embedded = outcome_of(ours, sent, 30.0 if apache.is_refusal else APACHE_WAIT_S_MAX)
    return embedded, apache


@pytest.mark.parametrize("signed_in", [True, False], ids=["after authentication", "before authentication"])
def test_what_apache_kafka_refuses_is_refused(sides: tuple[str, str], signed_in: bool) -> None:
    ours, theirs = map(served_by, sides)
    found, refused = [], 0
    for api in served_apis():
        if api.key not in theirs:
            continue
        first, last = max(ours[api.key][0], theirs[api.key][0], api.first), min(ours[api.key][1], theirs[api.key][1])
        frames = corpus(api, first, last) if signed_in else list(corpus(api, first, last))[-4:]
        for sent in frames:
            embedded, apache = outcomes(sides, sent, signed_in=signed_in)
            refused += apache.is_refusal
            if apache.is_refusal and not embedded.is_refusal:
                found.append(f"{sent.name}: {embedded.value}, Apache Kafka {apache.value}")
    assert not found, "\n".join(found)
    assert refused > 100, "most of these frames make no sense"
