"""SASL, the client's half, no I/O: PLAIN, SCRAM-SHA-256 and -512 (RFC 5802), OAUTHBEARER (RFC 7628).

Keeps: with SCRAM the broker proves that it knows the password too, or the connection is refused.
       Secrets are in no error.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import importlib
import json
import re
import secrets
from collections.abc import Generator

from semel.errors import BrokerError, ConfigError
from semel.protocol.error_codes import ErrorCode
from semel.wire.security import SaslMechanism, SaslSettings

ITERATIONS_MIN = 4096
# A broker that asks for more would keep this client busy for seconds before it has proven anything.
ITERATIONS_MAX = 1_000_000
NONCE_BYTES = 24
_HASHES = {SaslMechanism.SCRAM_SHA_256: "sha256", SaslMechanism.SCRAM_SHA_512: "sha512"}
_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9/+=]+),i=(?P<iterations>[1-9]\d{0,8})(?:,.*)?"
)
_SERVER_FINAL = re.compile(r"v=(?P<signature>[A-Za-z0-9/+=]+)(?:,.*)?")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")

Exchange = Generator[bytes, bytes, None]
"""Yields each token to send and is sent the broker's answer to it; ends when both sides are satisfied."""


def refusal(why: str) -> BrokerError:
    """The error of a login that failed: asking again with the same settings cannot help."""
    return BrokerError(why, code=ErrorCode.SASL_AUTHENTICATION_FAILED)


def exchange_for(settings: SaslSettings) -> Exchange:
    """Begin an exchange."""
    match settings.mechanism:
        case SaslMechanism.PLAIN:
            return _plain(settings.username, settings.password)
        case SaslMechanism.OAUTHBEARER:
            return _oauth(settings.token_source)
        case _:
            return _scram(_HASHES[settings.mechanism], settings.username, settings.password)


def _plain(username: str, password: str) -> Exchange:
    # Nothing before the first NUL: the user acts for itself.
    yield f"\0{username}\0{password}".encode()


def _scram(hash_name: str, username: str, password: str) -> Exchange:
    # First "=", or the escapes themselves would be escaped.
    name = username.replace("=", "=3D").replace(",", "=2C")
    own_nonce = secrets.token_urlsafe(NONCE_BYTES)
    bare = f"n={name},r={own_nonce}"
    server_first = _text((yield f"n,,{bare}".encode()))
    nonce, salt, iterations = _read_server_first(server_first, own_nonce)
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    # "n,," says that there is no channel binding. It is sent again under the proof, so that nobody can have changed it.
    unproven = f"c={base64.b64encode(b'n,,').decode()},r={nonce}"
    signed = f"{bare},{server_first},{unproven}".encode()
    proof = base64.b64encode(_proof(hash_name, salted, signed)).decode()
    server_final = _text((yield f"{unproven},p={proof}".encode()))
    _check_signature(server_final, hmac.digest(hmac.digest(salted, b"Server Key", hash_name), signed, hash_name))


def _read_server_first(text: str, own_nonce: str) -> tuple[str, bytes, int]:
    found = _SERVER_FIRST.fullmatch(text)
    if found is None:
        raise refusal("the broker's first SCRAM message cannot be read")
    # An answer to another exchange, or a broker that adds nothing of its own: either may be a replay.
    if not found["nonce"].startswith(own_nonce) or found["nonce"] == own_nonce:
        raise refusal("the broker's SCRAM nonce does not continue ours")
    iterations = int(found["iterations"])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise refusal(f"the broker asks for {iterations} SCRAM iterations, not {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return found["nonce"], _bytes(found["salt"]), iterations


def _proof(hash_name: str, salted: bytes, signed: bytes) -> bytes:
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
    return bytes(key ^ sign for key, sign in zip(client_key, signature, strict=True))


def _check_signature(text: str, expected: bytes) -> None:
    found = _SERVER_FINAL.fullmatch(text)
    if found is None or not hmac.compare_digest(_bytes(found["signature"]), expected):
        raise refusal("the broker did not prove that it knows the password: it may not be the one it says it is")


def _text(answer: bytes) -> str:
    try:
        return answer.decode()
    except UnicodeDecodeError:
        raise refusal("the broker's SASL message is not UTF-8") from None


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise refusal("a field of the broker's SCRAM message is not base64") from None


def _oauth(token_source: str) -> Exchange:
    answer = yield f"n,,\1auth=Bearer {_token(token_source)}\1\1".encode()
    if answer:
        # The broker says why in a challenge; one more byte lets it end the exchange with its own error.
        yield b"\1"
        raise refusal(f"the broker refused the OAuth token: {_status(answer)}")


def _status(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["status"])
    except (ValueError, KeyError, TypeError):
        return "it gave no reason"


def _token(source: str) -> str:
    module, _, function = source.partition(":")
    try:
        token = getattr(importlib.import_module(module), function)()
    except Exception as error:  # noqa: BLE001  (somebody else's function; its error may hold a secret, so only its kind is shown)
        raise ConfigError(f"the OAuth token source {source} failed: {type(error).__name__}") from None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ConfigError(f"the OAuth token source {source} gave no token", you_want="a str in the form of RFC 6750")
    return token
