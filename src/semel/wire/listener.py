"""What a broker's port offers to somebody who brings no password: for `semel doctor --security`.

Nothing is changed and no credential is sent: one connection without TLS, one with, each with the requests that a client
makes before it logs in.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field

from semel.errors import ConnectionFailure, ProtocolError, SemelError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.metadata import MetadataResponse
from semel.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from semel.wire.connection import Connection
from semel.wire.deadline import Deadline
from semel.wire.metadata import metadata_request, read_brokers
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress

LOOK_MS_MAX = 5_000
NO_MECHANISM = "semel-doctor"  # nobody offers it, so the answer lists what there is


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One port as a client without a login sees it."""

    address: BrokerAddress
    in_the_clear: bool = False  # it speaks Kafka without TLS
    lets_anybody_in: bool = False  # it answers questions without TLS and without a login
    mechanisms: tuple[str, ...] = ()  # by which it lets clients log in without TLS
    tls: str = ""  # the version of TLS that it speaks
    brokers: tuple[BrokerAddress, ...] = field(default=(), repr=False)  # that it names without a login
    unreachable: str = ""


def look_at(address: BrokerAddress) -> Listener:
    """Ask one port, within a few seconds."""
    settings = WireSettings(bootstrap=((address.host, address.port),))
    deadline = Deadline.after_ms(LOOK_MS_MAX)
    try:
        connection = Connection.open(address, settings, deadline)
    except SemelError as failure:
        # A port that wants TLS closes on plain bytes, which looks the same as no Kafka
        # at all. A handshake tells them apart.
        tls = _tls_version(address)
        return Listener(address=address, tls=tls, unreachable="" if tls else failure.summary)
    try:
        mechanisms = _mechanisms(connection, deadline)
    finally:
        connection.close()
    # A port that wants a login tells nobody anything before it.
    brokers = () if mechanisms else _brokers_told_to_anybody(address, settings)
    return Listener(
        address=address, in_the_clear=True, lets_anybody_in=bool(brokers), mechanisms=mechanisms, brokers=brokers
    )


def _mechanisms(connection: Connection, deadline: Deadline) -> tuple[str, ...]:
    try:
        answer = connection.call(SaslHandshakeRequest(mechanism=NO_MECHANISM), SaslHandshakeResponse, deadline)
    except (ConnectionFailure, ProtocolError):
        return ()
    return tuple(answer.mechanisms) if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM else ()


def _brokers_told_to_anybody(address: BrokerAddress, settings: WireSettings) -> tuple[BrokerAddress, ...]:
    """On a connection of its own: a broker ends one on which a login went wrong."""
    deadline = Deadline.after_ms(LOOK_MS_MAX)
    try:
        connection = Connection.open(address, settings, deadline)
    except SemelError:
        return ()
    try:
        return tuple(read_brokers(connection.call(metadata_request([]), MetadataResponse, deadline)).values())
    except SemelError:
        return ()
    finally:
        connection.close()


def _tls_version(address: BrokerAddress) -> str:
    """The version that a handshake agrees on, 1.2 at least; whom to trust is asked elsewhere, with the user's files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # Only what the port speaks is looked at; nothing is sent over this connection.
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address.host, address.port), timeout=LOOK_MS_MAX / 1000) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as wrapped,
        ):
            return wrapped.version() or ""
    except (OSError, UnicodeError, ValueError):
        return ""
