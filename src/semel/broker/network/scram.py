"""SCRAM-SHA-256 and SCRAM-SHA-512, the server's half (RFC 5802, RFC 7677): two messages in, two out, no I/O.

Keeps: the password is never stored: a credential is a salt and two keys derived from it.
Why:   an unknown user is sent a salt all the same and fails at the proof, as a wrong password does; who guesses names
       learns nothing. Names and passwords are taken as UTF-8 without SASLprep, as Apache Kafka takes them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from semel.broker.metadata.cluster_state import CredentialSet

SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
SCRAM_HASHES: Mapping[str, str] = MappingProxyType({SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"})
MECHANISM_NUMBERS: Mapping[str, int] = MappingProxyType({SCRAM_SHA_256: 1, SCRAM_SHA_512: 2})  # as KIP-554 has them
# Both limits are Apache Kafka's.
ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
SALT_BYTES = 16

_CLIENT_FIRST = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authorization>[^,]+))?,)(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[!-+\--~]+)(?:,.*)?)",
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    r"(?P<unproven>c=(?P<binding>[^,]+),r=(?P<nonce>[!-+\--~]+)(?:,[^,]+)*),p=(?P<proof>[^,]+)", re.DOTALL
)
_BAD_ESCAPE = re.compile(r"=(?!2C|3D)")


class ScramRefused(ValueError):
    """The exchange failed; the text is for the log and names no secret."""


def _hmac(mechanism: str, key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, SCRAM_HASHES[mechanism])


def salt_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Derive what a client sends in place of a password when it creates a credential."""
    return hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(user: str, mechanism: str, salted_password: bytes, *, salt: bytes, iterations: int) -> CredentialSet:
    """Derive the keys that are stored from a salted password."""
    client_key = _hmac(mechanism, salted_password, b"Client Key")
    return CredentialSet(
        user=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        stored_key=hashlib.new(SCRAM_HASHES[mechanism], client_key).digest(),
        server_key=_hmac(mechanism, salted_password, b"Server Key"),
    )


class ScramExchange:
    """One authentication: `step` takes each message of the client and gives the answer to it."""

    def __init__(self, mechanism: str, credential_for: Callable[[str], tuple[CredentialSet, bool]], nonce: str) -> None:
        """`credential_for` gives a credential for any name, and whether that user exists; `nonce` is ours, fresh."""
        self.mechanism = mechanism
        self.user = ""
        self.done = False
        self._credential_for = credential_for
        self._own_nonce = nonce
        self._credential: CredentialSet | None = None
        self._exists = False
        self._gs2 = ""
        self._nonce = ""
        self._signed_so_far = ""

    def step(self, token: bytes) -> bytes:
        """Take the client's next message; raises ScramRefused when it proves nothing."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise ScramRefused("a message is not UTF-8") from None
        return self._first(text) if self._credential is None else self._final(text, self._credential)

    def _first(self, text: str) -> bytes:
        message = _CLIENT_FIRST.fullmatch(text)
        if message is None:
            raise ScramRefused("the first message has another form than n,,n=user,r=nonce")
        self.user = _unescaped(message["name"])
        if message["authorization"] and _unescaped(message["authorization"]) != self.user:
            raise ScramRefused("the client asked to act as somebody else")
        self._credential, self._exists = self._credential_for(self.user)
        # Sent again by the client in its final message: nobody may have changed it on the way.
        self._gs2 = message["gs2"]
        self._nonce = message["nonce"] + self._own_nonce
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._signed_so_far = f"{message['bare']},{answer}"
        return answer.encode()

    def _final(self, text: str, credential: CredentialSet) -> bytes:
        message = _CLIENT_FINAL.fullmatch(text)
        if message is None or self.done:
            raise ScramRefused("the final message has another form than c=binding,r=nonce,p=proof")
        if _decoded(message["binding"]) != self._gs2.encode():
            raise ScramRefused("the channel binding changed on the way")
        # In constant time, as every comparison with something secret or drawn.
        if not hmac.compare_digest(message["nonce"], self._nonce):
            raise ScramRefused("the nonce is not the one that was agreed")
        signed = f"{self._signed_so_far},{message['unproven']}".encode()
        self._check_proof(credential, signed, _decoded(message["proof"]))
        self.done = True
        return b"v=" + base64.b64encode(_hmac(self.mechanism, credential.server_key, signed))

    def _check_proof(self, credential: CredentialSet, signed: bytes, proof: bytes) -> None:
        signature = _hmac(self.mechanism, credential.stored_key, signed)
        if len(proof) != len(signature):
            raise ScramRefused("the proof has another length than the hash")
        # RFC 5802: the proof is the client key hidden by the signature. Its hash is all that is stored.
        client_key = bytes(ours ^ theirs for ours, theirs in zip(signature, proof, strict=True))
        shown = hashlib.new(SCRAM_HASHES[self.mechanism], client_key).digest()
        # Compared first, also for a user that does not exist: the time must not tell.
        if not (hmac.compare_digest(shown, credential.stored_key) and self._exists):
            raise ScramRefused("the proof does not fit")


def _unescaped(name: str) -> str:
    if _BAD_ESCAPE.search(name):
        raise ScramRefused("a name has '=' that is neither =2C nor =3D")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramRefused("a field is not base64") from None
