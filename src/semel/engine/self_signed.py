"""Certificates for a cluster of one's own: a throw-away authority, the brokers' certificate and a client's.

Needs the `cryptography` package, imported only when certificates are made.

Keeps: private keys are readable by their owner only; the authority's key is never written, so nobody can sign more.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from semel.errors import MissingExtraError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

# Some clients refuse a certificate that is valid for more than 398 days.
VALID_DAYS = 397
# A cluster that is started now must not outlive its certificates today.
RENEW_BEFORE = timedelta(days=1)
ALWAYS_NAMED = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where the certificates of a running cluster are, as PEM files."""

    certificate: Path
    key: Path
    ca: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None


def self_signed_files(folder: Path, host: str) -> TlsFiles:
    """Give the certificates in this folder, made again when there are none or they no longer serve."""
    files = TlsFiles(
        ca=folder / "ca.pem",
        certificate=folder / "broker.pem",
        key=folder / "broker-key.pem",
        client_certificate=folder / "client.pem",
        client_key=folder / "client-key.pem",
    )
    names = sorted({host, *ALWAYS_NAMED})
    if not _still_good(files, names):
        _make(files, names)
    return files


def _still_good(files: TlsFiles, names: Sequence[str]) -> bool:
    wanted = [files.ca, files.certificate, files.key, files.client_certificate, files.client_key]
    if not all(path is not None and path.exists() for path in wanted):
        return False
    try:
        from cryptography import x509  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError.of("tls", "a self-signed certificate") from None
    try:
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    ends = certificate.not_valid_after_utc
    # A day early, so that it does not end while the cluster runs; and for all names, as the host may be another now.
    return ends - RENEW_BEFORE > datetime.now(UTC) and set(_alternative_names(names)) <= set(named)


def _alternative_names(names: Sequence[str]) -> list[x509.GeneralName]:
    from cryptography import x509  # noqa: PLC0415

    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _make(files: TlsFiles, names: Sequence[str]) -> None:
    try:
        from cryptography.x509.oid import ExtendedKeyUsageOID as Usage  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError.of("tls", "a self-signed certificate") from None
    assert files.ca is not None
    assert files.client_certificate is not None
    assert files.client_key is not None
    authority = _Authority()
    files.ca.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(files.ca, _pem(authority.certificate))
    authority.issue("semel broker", names, Usage.SERVER_AUTH, files.certificate, files.key)
    authority.issue("semel client", ["client"], Usage.CLIENT_AUTH, files.client_certificate, files.client_key)


class _Authority:
    """Signs the certificates of one cluster and is then forgotten."""

    def __init__(self) -> None:
        from cryptography import x509  # noqa: PLC0415

        self._key = _new_key()
        self._name = _common_name("semel authority")
        public = self._key.public_key()
        self.certificate = self._sign(
            self._name,
            public,
            [
                # It may sign certificates, but no other authority.
                (x509.BasicConstraints(ca=True, path_length=0), True),
                (_key_usage(sign_certificates=True), True),
                (x509.SubjectKeyIdentifier.from_public_key(public), False),
            ],
        )

    def issue(
        self, subject: str, names: Sequence[str], usage: x509.ObjectIdentifier, certificate: Path, key: Path
    ) -> None:
        """Make a key and its certificate, and write both."""
        from cryptography import x509  # noqa: PLC0415

        own = _new_key()
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_key_usage(sign_certificates=False), True),
            (x509.ExtendedKeyUsage([usage]), False),
            (x509.SubjectAlternativeName(_alternative_names(names)), False),
            (x509.SubjectKeyIdentifier.from_public_key(own.public_key()), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
        ]
        _write(certificate, _pem(self._sign(_common_name(subject), own.public_key(), extensions)))
        _write(key, _key_pem(own))

    def _sign(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey, extensions: list[tuple[x509.ExtensionType, bool]]
    ) -> x509.Certificate:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            # Clients whose clocks are a little behind must not find it invalid yet.
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=VALID_DAYS))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())


def _new_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    # Quicker to make and to sign with than an RSA key, and every client knows the curve.
    return ec.generate_private_key(ec.SECP256R1())


def _common_name(text: str) -> x509.Name:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509  # noqa: PLC0415

    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    # Made with its mode: a file that is closed to others only afterwards could be opened before.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(content)
