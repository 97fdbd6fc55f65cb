"""When a login may cross a connection without TLS: the one rule for every client here.

PLAIN sends the password itself, OAUTHBEARER a token that is as good as one; anybody who sees the packets has it. Both
are refused without TLS, except on the loopback address, which no network carries, and where the setting
`sasl.in.the.clear=allowed` asks for it. SCRAM sends neither, so it needs no leave.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from semel.errors import ConfigError

IN_THE_CLEAR = "sasl.in.the.clear"
ALLOWED = "allowed"
REVEALING = frozenset({"PLAIN", "OAUTHBEARER"})


def is_loopback(host: str) -> bool:
    """Whether a name or address stays on this machine. Any other name may lead elsewhere tomorrow."""
    # An IPv6 address may stand in brackets and name its interface behind "%".
    plain = host.strip("[]").partition("%")[0].lower()
    if plain == "localhost":
        return True
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_allowed(text: str | None, *, mechanism: str, encrypted: bool, prefix: str = "") -> bool:
    """Read the setting; ConfigError for another value than the one, and where there is nothing to allow."""
    if text is None:
        return False
    if text.strip().lower() != ALLOWED:
        raise ConfigError(f"{prefix}{IN_THE_CLEAR} is {text!r}", you_want=f"{ALLOWED}, or leave it out")
    if encrypted or mechanism not in REVEALING:
        raise ConfigError(
            f"{prefix}{IN_THE_CLEAR} has no effect here",
            you_want="leave it out",
            because="the connection is encrypted" if encrypted else f"{mechanism} does not send the password",
        )
    return True


def refuse_in_the_clear(mechanism: str, hosts: Iterable[str], *, prefix: str = "") -> None:
    """Raise ConfigError when a password or token would reach one of these hosts unencrypted; nobody has allowed it."""
    if mechanism not in REVEALING:
        return
    away = next((host for host in hosts if not is_loopback(host)), "")
    if away:
        what = "the password" if mechanism == "PLAIN" else "the token"
        raise ConfigError(
            f"{what} would be sent to {away} unencrypted",
            you_wrote=f"{prefix}sasl.mechanism={mechanism} with {prefix}security.protocol=SASL_PLAINTEXT",
            you_want=f"{prefix}security.protocol=SASL_SSL; or SCRAM-SHA-512, which does not send it; or, where the "
            f"network is known to be safe, {prefix}{IN_THE_CLEAR}={ALLOWED}",
            because="anybody who sees the packets on the way can log in with it",
        )
