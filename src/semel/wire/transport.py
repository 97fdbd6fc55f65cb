"""Opens a socket to a broker, with TLS where it is asked for; says in plain words why that failed.

Keeps: nothing was sent when opening fails: outcome DID_NOT_HAPPEN. A wrong certificate is a ConfigError, not retried.
"""

from __future__ import annotations

import functools
import socket
import ssl

from semel.errors import ConfigError, ConnectionFailure, Outcome
from semel.wire.deadline import Deadline
from semel.wire.security import TlsSettings
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress


def open_socket(address: BrokerAddress, settings: WireSettings, deadline: Deadline) -> socket.socket:
    """Connect within the deadline and within `socket.connection.setup.timeout.ms`."""
    limit = deadline.within_ms(settings.connect_timeout_ms)
    if limit.expired:
        raise _failure(address, "no time was left to connect")
    try:
        # 0 would make a socket that does not wait at all.
        plain = socket.create_connection((address.host, address.port), timeout=limit.left_s or 0.001)
    except TimeoutError:
        raise _failure(address, f"no connection within {limit.limit_ms:.0f} ms") from None
    # A name that cannot be a host's fails in its encoding and not in the look-up.
    except (OSError, UnicodeError) as error:
        raise _failure(address, getattr(error, "strerror", None) or str(error)) from None
    # Requests are written whole. To wait for more bytes would only delay them.
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain if settings.tls is None else _encrypted(plain, address, settings.tls, limit)


def _failure(address: BrokerAddress, why: str, hint: str = "") -> ConnectionFailure:
    return ConnectionFailure(f"broker {address} cannot be reached: {why}", outcome=Outcome.DID_NOT_HAPPEN, because=hint)


def _encrypted(plain: socket.socket, address: BrokerAddress, tls: TlsSettings, limit: Deadline) -> socket.socket:
    try:
        # Without a handshake for now: it comes below, under a timeout of its own.
        wrapped = tls_context(tls).wrap_socket(
            plain, server_hostname=address.host, do_handshake_on_connect=False, suppress_ragged_eofs=True
        )
    except BaseException:
        plain.close()
        raise
    try:
        wrapped.settimeout(limit.left_s or 0.001)
        wrapped.do_handshake()
    except BaseException as error:
        wrapped.close()
        if isinstance(error, OSError):
            raise _handshake_failure(address, error) from None
        raise
    return wrapped


def _handshake_failure(address: BrokerAddress, error: OSError) -> ConfigError | ConnectionFailure:
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConfigError(
            f"the certificate of broker {address} is not trusted: {error.verify_message}",
            you_want="kafka.ssl.ca.location: the certificate of who signed it, as a PEM file",
        )
    if isinstance(error, TimeoutError):
        return _failure(address, "the TLS handshake took too long", "the port may not speak TLS")
    why = error.reason if isinstance(error, ssl.SSLError) else error.strerror or str(error)
    return _failure(address, f"the TLS handshake failed: {why}", "the port may not speak TLS, or wants a certificate")


@functools.lru_cache(maxsize=16)
def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """Make the TLS context once for each settings: reading the authorities takes milliseconds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if tls.tls13_only else ssl.TLSVersion.TLSv1_2
    # Without it the certificate of any other host of the same authority would do.
    context.check_hostname = tls.check_host
    _load_authorities(context, tls)
    if tls.certificate_file:
        try:
            context.load_cert_chain(tls.certificate_file, tls.key_file, password=lambda: tls.key_password)
        except OSError as error:
            raise _unusable(f"{tls.certificate_file}, {tls.key_file}", error) from None
    return context


def _load_authorities(context: ssl.SSLContext, tls: TlsSettings) -> None:
    if not tls.ca_file and not tls.ca_pem:
        # As with librdkafka: whom the machine trusts.
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(tls.ca_file or None, cadata=tls.ca_pem or None)
    except (OSError, ValueError) as error:
        raise _unusable(tls.ca_file or "the certificates given as text", error) from None


def _unusable(what: str, error: Exception) -> ConfigError:
    why = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
    return ConfigError(f"the TLS files cannot be used: {why or error}", you_wrote=what, you_want="PEM files")
