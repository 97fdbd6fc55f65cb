"""Free ports for servers that may be killed and started again on the same one.

Why: a port that the system gives to outgoing connections is lost to any of them while its server is down. Ports are
     drawn from the system's own chance: tests that run side by side begin with the same seeds.
"""

from __future__ import annotations

import secrets
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

from semel.errors import EnvironmentFailure

LOOPBACK = "127.0.0.1"
PORT_MIN, OUTGOING_PORT_MIN, TRIES_MAX = 10_000, 32_768, 1_000
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, below those of outgoing connections; held together while looking."""
    # Somebody may still take a port before the server binds it; the server then says so.
    with ExitStack() as held:
        found: list[int] = []
        for _ in range(TRIES_MAX):
            if len(found) == count:
                return found
            each = held.enter_context(socket.socket())
            with suppress(OSError):  # in use
                each.bind((LOOPBACK, PORT_MIN + secrets.randbelow(outgoing_port_min() - PORT_MIN)))
                found.append(int(each.getsockname()[1]))
    raise EnvironmentFailure(f"no {count} free ports were found between {PORT_MIN} and {outgoing_port_min()}")


def outgoing_port_min() -> int:
    """Where the ports of outgoing connections begin; the usual number where nobody says, or leaves no room below."""
    begin = int(_OUTGOING.read_text().split()[0]) if _OUTGOING.exists() else OUTGOING_PORT_MIN
    return begin if begin >= 2 * PORT_MIN else OUTGOING_PORT_MIN
