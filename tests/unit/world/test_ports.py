"""Ports for servers that are started again: nobody takes them while a server is down."""

from __future__ import annotations

import socket

import pytest

from semel.errors import EnvironmentFailure
from semel.world import ports
from semel.world.ports import LOOPBACK, free_ports


def test_no_outgoing_connection_can_take_them() -> None:
    with socket.create_server((LOOPBACK, 0)) as server, socket.create_connection(server.getsockname()) as connection:
        outgoing = connection.getsockname()[1]
    found = free_ports(20)
    assert len(set(found)) == 20
    assert ports.PORT_MIN <= min(found) <= max(found) < ports.outgoing_port_min() <= outgoing


def test_ports_in_use_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((LOOPBACK, free_ports(1)[0])) as server:
        taken = server.getsockname()[1]
        monkeypatch.setattr(ports, "PORT_MIN", taken)
        monkeypatch.setattr(ports, "outgoing_port_min", lambda: taken + 2)
        assert free_ports(1) == [taken + 1]
        with pytest.raises(EnvironmentFailure, match="free ports"):
            free_ports(2)
