"""TLS and SASL settings, from the options of Java clients and of librdkafka alike.

Keeps: a password or key phrase is in no text made from the settings or from an error about them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from semel.errors import ConfigError
from semel.protocol.clear_text import IN_THE_CLEAR, is_allowed
from semel.wire.option_names import PREFIX

# The parts of a `sasl.jaas.config`: one login module with its options, quoted or not.
_ENTRY = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(required|requisite|sufficient|optional)\b(?P<options>.*);\s*", re.DOTALL
)
_OPTION = re.compile(r"""\s*(?P<name>[\w.]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s";]+))""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class SecurityProtocol(StrEnum):
    """The values of `security.protocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        """Whether there is TLS."""
        return self.value.endswith("SSL")

    @property
    def authenticated(self) -> bool:
        """Whether there is SASL."""
        return self.value.startswith("SASL")


class SaslMechanism(StrEnum):
    """The values of `sasl.mechanism` that are spoken here."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """Who to log in as. `token_source` is `module:function`, importable where tasks run, and gives an OAuth token.

    With `in_the_clear` a password or token may be sent to any host without TLS.
    """

    mechanism: SaslMechanism
    username: str = ""
    password: str = field(default="", repr=False)
    token_source: str = ""
    in_the_clear: bool = False

    @classmethod
    def from_options(cls, given: Mapping[str, str], *, encrypted: bool) -> Self:
        """Read the `sasl.*` options."""
        mechanism = _mechanism(given)
        allowed = is_allowed(given.get(IN_THE_CLEAR), mechanism=mechanism, encrypted=encrypted, prefix=PREFIX)
        by_token = mechanism is SaslMechanism.OAUTHBEARER
        _check_used(given, _PASSWORD_OPTIONS if by_token else _TOKEN_OPTIONS, mechanism)
        if by_token:
            return cls(mechanism=mechanism, token_source=_token_source(given), in_the_clear=allowed)
        username, password = _login(given)
        return cls(mechanism=mechanism, username=username, password=password, in_the_clear=allowed)


_PASSWORD_OPTIONS = ("sasl.jaas.config", "sasl.username", "sasl.password")
_TOKEN_OPTIONS = ("sasl.login.callback.handler.class",)


def _check_used(given: Mapping[str, str], unused: tuple[str, ...], mechanism: SaslMechanism) -> None:
    for name in unused:
        if name in given:
            raise ConfigError(
                f"option {PREFIX}{name} has no effect with {PREFIX}sasl.mechanism={mechanism}",
                you_want="another mechanism, or leave the option out",
            )


def _mechanism(given: Mapping[str, str]) -> SaslMechanism:
    # The plural is librdkafka's name for it, and takes one mechanism all the same.
    text = given.get("sasl.mechanism") or given.get("sasl.mechanisms", "")
    try:
        return SaslMechanism(text.upper())
    except ValueError:
        raise ConfigError(
            f"option {PREFIX}sasl.mechanism is {text!r}" if text else f"option {PREFIX}sasl.mechanism is missing",
            you_want=" | ".join(SaslMechanism),
        ) from None


def _token_source(given: Mapping[str, str]) -> str:
    source = given.get("sasl.login.callback.handler.class", "")
    module, colon, function = source.partition(":")
    if not (colon and all(part.isidentifier() for part in [*module.split("."), function])):
        raise ConfigError(
            "OAUTHBEARER needs a Python function that gives the token",
            you_want=f"{PREFIX}sasl.login.callback.handler.class=package.module:function",
            because="the function is imported by name in every task; a Java class cannot be called from here",
        )
    return source


def _login(given: Mapping[str, str]) -> tuple[str, str]:
    found = {"username": given.get("sasl.username", ""), "password": given.get("sasl.password", "")}
    if "sasl.jaas.config" in given:
        module, options = parse_jaas(given["sasl.jaas.config"])
        # A delegation token (KIP-48) logs in by SCRAM with an extra attribute, which is not sent here.
        if options.get("tokenauth", "false").lower() == "true" or module not in _PASSWORD_MODULES:
            raise ConfigError(f"login module {module} is not supported", you_want=" | ".join(_PASSWORD_MODULES))
        found |= options
    if not found["username"] or not found["password"]:
        raise ConfigError(
            "SASL needs a user name and a password",
            you_want=f"{PREFIX}sasl.username and {PREFIX}sasl.password, or {PREFIX}sasl.jaas.config",
        )
    # PLAIN puts a NUL between its fields (RFC 4616): another one inside a field would shift them.
    if "\0" in found["username"] + found["password"]:
        raise ConfigError("the SASL user name or password has a NUL character")
    return found["username"], found["password"]


_PASSWORD_MODULES = ("PlainLoginModule", "ScramLoginModule")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Certificates as PEM files; without an authority, the machine's own list of authorities is used."""

    ca_file: str = ""
    ca_pem: str = field(default="", repr=False)
    certificate_file: str = ""
    key_file: str = ""
    key_password: str = field(default="", repr=False)
    check_host: bool = True
    tls13_only: bool = False

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> Self:
        """Read the `ssl.*` options."""
        keystore = _pem_file(given, "ssl.keystore")
        certificate = given.get("ssl.certificate.location", keystore)
        key = given.get("ssl.key.location", keystore)
        if bool(certificate) != bool(key):
            raise ConfigError(
                "a client certificate needs its key, and a key its certificate",
                you_want=f"both {PREFIX}ssl.certificate.location and {PREFIX}ssl.key.location",
            )
        if "ssl.key.password" in given and not key:
            raise ConfigError(
                f"option {PREFIX}ssl.key.password has no effect without a private key",
                you_want=f"{PREFIX}ssl.key.location and {PREFIX}ssl.certificate.location, or leave it out",
            )
        return cls(
            ca_file=given.get("ssl.ca.location", "") or _pem_file(given, "ssl.truststore"),
            ca_pem=given.get("ssl.ca.pem", "") or given.get("ssl.truststore.certificates", ""),
            certificate_file=certificate,
            key_file=key,
            key_password=given.get("ssl.key.password", ""),
            check_host=_checks_host(given),
            tls13_only=_protocols(given) == {"TLSv1.3"},
        )


def _pem_file(given: Mapping[str, str], store: str) -> str:
    location = given.get(f"{store}.location", "")
    # Java's default type is JKS. A PEM file without a type is a PEM file all the same.
    kind = given.get(f"{store}.type", "PEM" if _looks_like_pem(location) else "JKS").upper()
    if kind != "PEM":
        raise ConfigError(
            f"option {PREFIX}{store}.{'location' if location else 'type'} names a {kind} store, which only Java reads",
            you_want=f"a PEM file, and {PREFIX}{store}.type=PEM",
            next_command=_CONVERT[store].format(location=location or "store.jks"),
        )
    return location


_CONVERT = {
    "ssl.truststore": "keytool -list -rfc -keystore {location} > truststore.pem",
    "ssl.keystore": "openssl pkcs12 -in {location} -out keystore.pem (JKS first: keytool -importkeystore)",
}


def _looks_like_pem(location: str) -> bool:
    if not location:
        return True
    try:
        with Path(location).open("rb") as file:
            return b"-----BEGIN " in file.read(1 << 16)
    except OSError:
        # A missing file is reported where it is opened: on the machine that needs it.
        return Path(location).suffix.lower() not in (".jks", ".p12", ".pfx", ".pkcs12")


def _checks_host(given: Mapping[str, str]) -> bool:
    text = given.get("ssl.endpoint.identification.algorithm", "https").lower()
    # Java turns the check off by an empty text, librdkafka by `none`.
    if text not in ("", "none", "https"):
        raise ConfigError(
            f"option {PREFIX}ssl.endpoint.identification.algorithm is {text!r}", you_want="https, or empty for none"
        )
    return text == "https"


def _protocols(given: Mapping[str, str]) -> set[str]:
    names = {name.strip() for name in given.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(",")}
    if names not in ({"TLSv1.2", "TLSv1.3"}, {"TLSv1.3"}):
        raise ConfigError(
            f"option {PREFIX}ssl.enabled.protocols is {', '.join(sorted(names))!r}",
            you_want="TLSv1.2,TLSv1.3 or TLSv1.3",
            because="who speaks TLS 1.2 speaks the newer one as well, where the broker does",
        )
    return names


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Read `sasl.jaas.config`, the Java way to give a user and a password: the login module's short name, its options.

    The text is never part of an error: it holds a password.
    """
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise _malformed("it is not one `<module> required <options>;`")
    options: dict[str, str] = {}
    rest, position = entry["options"], 0
    while rest[position:].strip():
        option = _OPTION.match(rest, position)
        if option is None:
            raise _malformed('an option is not of the form name="value"')
        quoted = option["quoted"]
        # In Java's file format a backslash protects the character behind it, a quote in a password for one.
        options[option["name"]] = _ESCAPE.sub(r"\1", quoted) if quoted is not None else option["bare"]
        position = option.end()
    return entry["module"].rsplit(".", 1)[-1], options


def _malformed(because: str) -> ConfigError:
    return ConfigError(
        "option kafka.sasl.jaas.config cannot be read",
        you_want='org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";',
        because=because,
    )
