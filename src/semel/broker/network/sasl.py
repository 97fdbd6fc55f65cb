"""SASL: who may connect, and the exchange that proves it. Mechanisms PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512; no I/O.

`Credentials` is what a user declares. `Authenticator` is made from it once per cluster and keeps only salted keys.
SCRAM users may also come and go while the cluster runs; those are part of the cluster's state.

Keeps: a refusal tells a wrong name and a wrong password apart neither by its text nor by the moment it comes, and
       neither do the salt and the iterations that are sent before it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from semel.broker.metadata.cluster_state import CredentialSet
from semel.broker.network.scram import (
    ITERATIONS_MIN,
    SALT_BYTES,
    SCRAM_HASHES,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramExchange,
    ScramRefused,
    credential_of,
    salt_password,
)
from semel.errors import BrokerError, ConfigError
from semel.protocol.error_codes import ErrorCode
from semel.world.rng import Rng

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512)
KEY_BYTES = 32
NONCE_BYTES = 18

StoredCredentials = Mapping[tuple[str, str], CredentialSet]


class AuthenticationFailed(BrokerError):
    """The client did not prove who it is; `summary` may be shown to it, `because` only to the log."""

    def __init__(self, summary: str, because: str = "") -> None:
        """Nothing was changed."""
        super().__init__(summary, code=ErrorCode.SASL_AUTHENTICATION_FAILED, because=because)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Users with their passwords, and the mechanisms by which they may prove them."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    mechanisms: Sequence[str] = MECHANISMS

    def __post_init__(self) -> None:
        """Refuse users and mechanisms that no client could log in with."""
        unknown = [mechanism for mechanism in self.mechanisms if mechanism not in MECHANISMS]
        if unknown or not self.mechanisms or isinstance(self.mechanisms, str):
            raise ConfigError(
                f"mechanisms={self.mechanisms!r} cannot be used", you_want=f"some of {', '.join(MECHANISMS)}"
            )
        for user, password in self.users.items():
            if not user or not password or "\0" in user + password:
                raise ConfigError(f"user {user!r}: name and password must have characters, and none of them NUL")


class Shape(NamedTuple):
    """What a client sees of a credential before it has proven anything."""

    salt_bytes: int
    iterations: int


DECLARED = Shape(SALT_BYTES, ITERATIONS_MIN)


class SaslExchange(Protocol):
    """One authentication under way."""

    user: str
    done: bool

    def step(self, token: bytes) -> bytes:
        """Take the client's next token, give the answer to it; AuthenticationFailed ends the exchange."""


class Authenticator:
    """Checks clients against the users declared at start and those in the cluster's state."""

    def __init__(self, credentials: Credentials, rng: Rng, secret: bytes) -> None:
        """Derive the keys; the passwords are not kept here. `secret` is the cluster's own and stays with its data."""
        self.mechanisms = tuple(dict.fromkeys(credentials.mechanisms))
        self._rng = rng
        self._key = secret
        # Looked up by the identity of the cluster's credentials, which are a new mapping after every change.
        self._shapes: tuple[StoredCredentials | None, dict[str, list[Shape]]] = (None, {})
        # A keyed hash and not a slow one: this is memory of a running process, and a login has to be quick.
        self._plain = {user: self._digest(password) for user, password in credentials.users.items()}
        self._scram = {
            (user, mechanism): self._salted(user, mechanism, password)
            for user, password in credentials.users.items()
            for mechanism in self.mechanisms
            if mechanism in SCRAM_HASHES
        }

    def begin(self, mechanism: str, stored: StoredCredentials) -> SaslExchange:
        """Start an exchange; a credential in the cluster's state goes before one declared at start."""
        assert mechanism in self.mechanisms, "the handshake lets only these pass"
        if mechanism == PLAIN:
            return PlainExchange(self)
        return _Scram(self, mechanism, stored)

    def knows(self, user: str, password: str) -> bool:
        """Tell whether this is a declared user with this password, in the same time for any answer."""
        # An unknown user costs the same comparison as a known one.
        expected = self._plain.get(user)
        same = hmac.compare_digest(expected or self._digest(""), self._digest(password))
        return same and expected is not None

    def scram_credential(self, user: str, mechanism: str, stored: StoredCredentials) -> tuple[CredentialSet, bool]:
        """Give a user's credential, or one that nobody can prove and that looks like any other."""
        found = stored.get((user, mechanism)) or self._scram.get((user, mechanism))
        decoy = self._decoy(user, mechanism, stored)  # also for those who exist: the time it takes must not tell
        return (found, True) if found is not None else (decoy, False)

    def nonce(self) -> str:
        """Draw the server's part of a SCRAM nonce."""
        return self._rng.token_bytes(NONCE_BYTES).hex()

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), "sha256")

    def _salted(self, user: str, mechanism: str, password: str) -> CredentialSet:
        salt = self._salt(user, mechanism, SALT_BYTES)
        salted = salt_password(mechanism, password, salt, ITERATIONS_MIN)
        return credential_of(user, mechanism, salted, salt=salt, iterations=ITERATIONS_MIN)

    def _salt(self, user: str, mechanism: str, size_bytes: int) -> bytes:
        return hashlib.shake_256(self._digest(f"salt {mechanism} {user}")).digest(size_bytes)

    def _decoy(self, user: str, mechanism: str, stored: StoredCredentials) -> CredentialSet:
        # Asked twice, also after a restart, the same name must get the same salt, or the decoy would show itself. It
        # has the shape of somebody's credential: which one, the name decides, and others that come hardly change it.
        shapes = self._shapes_of(stored).get(mechanism, [DECLARED])
        shape = max(shapes, key=lambda one: self._digest(f"shape {mechanism} {user} {one}"))
        nobody = self._digest(f"password {mechanism} {user}")
        salt = self._salt(user, mechanism, shape.salt_bytes)
        return credential_of(user, mechanism, nobody, salt=salt, iterations=shape.iterations)

    def _shapes_of(self, stored: StoredCredentials) -> dict[str, list[Shape]]:
        """How credentials look, for each mechanism; found once for each state of the cluster."""
        seen, shapes = self._shapes
        if seen is not stored:
            found: dict[str, set[Shape]] = {}
            for credential in (*self._scram.values(), *stored.values()):
                shape = Shape(len(credential.salt), credential.iterations)
                found.setdefault(credential.mechanism, set()).add(shape)
            shapes = {mechanism: sorted(some) for mechanism, some in found.items()}
            self._shapes = (stored, shapes)
        return shapes


class PlainExchange:
    """PLAIN (RFC 4616): one token with name and password."""

    def __init__(self, authenticator: Authenticator) -> None:
        """Nothing is proven yet."""
        self.user = ""
        self.done = False
        self._authenticator = authenticator

    def step(self, token: bytes) -> bytes:
        """Check `[authorization id] NUL name NUL password`."""
        try:
            authorization, user, password = token.decode().split("\0")
        except ValueError:
            raise invalid_credentials(PLAIN, "the token is not three UTF-8 texts with NUL between") from None
        # As Apache Kafka: an empty name or password is bad form, which is another error than a wrong one.
        if not user or not password:
            raise invalid_credentials(PLAIN, "name or password is empty")
        if not self._authenticator.knows(user, password):
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization not in ("", user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user, self.done = user, True
        return b""


class _Scram(ScramExchange):
    def __init__(self, authenticator: Authenticator, mechanism: str, stored: StoredCredentials) -> None:
        super().__init__(
            mechanism, lambda user: authenticator.scram_credential(user, mechanism, stored), authenticator.nonce()
        )

    def step(self, token: bytes) -> bytes:
        try:
            return super().step(token)
        except ScramRefused as refused:
            raise invalid_credentials(self.mechanism, str(refused)) from None


def invalid_credentials(mechanism: str, because: str) -> AuthenticationFailed:
    """Make the refusal in Apache Kafka's words; the reason stays here."""
    text = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    return AuthenticationFailed(text, because)
