"""The request header: everything that is none is a ProtocolError, never another exception."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.network.envelope import Head
from semel.errors import ProtocolError
from tests.hardening.raw import header


def test_a_header_is_read() -> None:
    head = Head(memoryview(header(3, 9, 77, "café") + b"body"))
    assert (head.api_key, head.version, head.correlation_id, head.client_id) == (3, 9, 77, "café")
    assert head.body_at == len(header(3, 9, 77, "café"))


def test_a_null_client_id_is_empty() -> None:
    assert Head(memoryview(struct.pack(">hhih", 3, 1, 0, -1))).client_id == ""


@pytest.mark.parametrize("frame", [b"", b"\0", bytes(9), struct.pack(">hhih", 0, 0, 0, 1), bytes(8) + b"\0\2\xff\xff"])
def test_anything_else_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        Head(memoryview(frame))


@given(st.binary(max_size=40))
def test_no_bytes_raise_anything_else(frame: bytes) -> None:
    try:
        head = Head(memoryview(frame))
    except ProtocolError:
        return
    assert head.body_at <= len(frame)
