"""`semel.Security`: who may connect to an embedded cluster and how, in one declaration.

    Security(tls=Tls.self_signed())                                       SSL
    Security(users={"alice": "secret"})                                   SASL_PLAINTEXT
    Security(tls=Tls.self_signed(), users={"alice": "secret"})            SASL_SSL
    Security(tls=Tls(certificate=…, key=…, ca=…, client_auth="required")) SSL with client certificates

`cluster.client_settings` is what a client needs to connect, by librdkafka's names.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from semel.broker.network.sasl import MECHANISMS, Credentials
from semel.engine.self_signed import TlsFiles, self_signed_files
from semel.errors import ConfigError


class ClientAuth(StrEnum):
    """Whether clients show a certificate, in the words of Kafka's `ssl.client.auth`."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates as PEM files; without any, the cluster makes its own in its data folder."""

    certificate: Path | str | None = None
    key: Path | str | None = None
    ca: Path | str | None = None
    client_auth: ClientAuth | str = ClientAuth.NONE

    @classmethod
    def self_signed(cls, *, client_auth: ClientAuth | str = ClientAuth.NONE) -> Self:
        """Let the cluster make its certificates, and one for clients."""
        return cls(client_auth=client_auth)

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.client_auth not in list(ClientAuth):
            raise ConfigError(f"client_auth={self.client_auth!r} is unknown", you_want=" | ".join(ClientAuth))
        if (self.certificate is None) != (self.key is None) or (self.ca is not None and self.certificate is None):
            raise ConfigError(
                "TLS needs a certificate and its key",
                you_want="Tls(certificate=…, key=…, ca=…) or Tls.self_signed()",
            )
        if self.certificate is not None and self.ca is None and self.client_auth != ClientAuth.NONE:
            raise ConfigError(
                "client certificates cannot be checked",
                you_wrote=f"client_auth={str(self.client_auth)!r} without ca",
                you_want="ca= with the certificate of who signs for the clients",
            )

    def files(self, folder: Path, host: str) -> TlsFiles:
        """Give the PEM files; those the cluster makes itself go into the folder."""
        if self.certificate is None or self.key is None:
            return self_signed_files(folder, host)
        return TlsFiles(
            certificate=Path(self.certificate), key=Path(self.key), ca=Path(self.ca) if self.ca is not None else None
        )

    def server_context(self, files: TlsFiles) -> ssl.SSLContext:
        """Make what a listening broker needs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Older versions have known weaknesses, and Kafka's clients speak 1.2 and 1.3.
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(files.certificate, files.key, password=_no_password)
            if files.ca is not None:
                context.load_verify_locations(files.ca)
        except OSError as error:
            raise ConfigError(
                f"the TLS files cannot be used: {error.strerror or error}",
                you_wrote=", ".join(str(path) for path in (files.certificate, files.key, files.ca) if path),
                you_want="PEM files: a certificate, its unencrypted key, and the authority's certificate",
            ) from error
        context.verify_mode = _VERIFY[ClientAuth(self.client_auth)]
        return context


def _no_password() -> str:
    # Without this OpenSSL would ask at the terminal, and wait.
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """TLS, users, or both; with neither the cluster is open to anybody who reaches its ports."""

    tls: Tls | None = None
    users: Mapping[str, str] | None = field(default=None, repr=False)
    mechanisms: Sequence[str] = MECHANISMS

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.users is not None and not self.users:
            raise ConfigError(
                "users={} names nobody",
                you_want='users={"alice": "…"}, or no users at all for a cluster that lets everybody in',
                because="who writes a file of users wants to know who connects; without one, nobody would be asked",
            )
        # Made for its checks alone: what nobody could log in with is refused here and not when the cluster starts.
        Credentials(users=self.users or {}, mechanisms=self.mechanisms)

    @property
    def credentials(self) -> Credentials | None:
        """What the brokers check clients against; None when anybody may connect."""
        return Credentials(users=dict(self.users), mechanisms=tuple(self.mechanisms)) if self.users else None

    @property
    def protocol(self) -> str:
        """The value of `security.protocol`."""
        transport = "SSL" if self.tls is not None else "PLAINTEXT"
        return f"SASL_{transport}" if self.users else transport

    def client_settings(
        self, files: TlsFiles | None, *, user: str | None = None, mechanism: str | None = None
    ) -> dict[str, str]:
        """What a client has to set, by librdkafka's names; the first user and mechanism unless named."""
        settings = {"security.protocol": self.protocol} | _tls_settings(files)
        if self.users:
            name = user if user is not None else next(iter(self.users))
            if name not in self.users:
                raise ConfigError(f"user {name!r} was not declared", you_want=" | ".join(self.users))
            chosen = mechanism if mechanism is not None else self.mechanisms[0]
            settings |= {"sasl.mechanism": chosen, "sasl.username": name, "sasl.password": self.users[name]}
        return settings


def _tls_settings(files: TlsFiles | None) -> dict[str, str]:
    if files is None:
        return {}
    named = {
        "ssl.ca.location": files.ca,
        "ssl.certificate.location": files.client_certificate,
        "ssl.key.location": files.client_key,
    }
    return {name: str(path) for name, path in named.items() if path is not None}
