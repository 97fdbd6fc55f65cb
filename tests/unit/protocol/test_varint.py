"""Varints: exact over 64 bits, and every malformed one is an error."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semel.errors import CorruptBatchError
from semel.protocol.varint import read_varint, read_varlong, varint_size, write_varint


@given(st.integers(-(2**63), 2**63 - 1))
@example(-(2**63))
@example(2**63 - 1)
def test_long_round_trip(value: int) -> None:
    target = bytearray()
    write_varint(target, value)
    assert len(target) == varint_size(value)
    assert read_varlong(target, 0, len(target)) == (value, len(target))


@given(st.integers(-(2**31), 2**31 - 1))
def test_int_round_trip(value: int) -> None:
    target = bytearray(b"\xff")
    write_varint(target, value)
    assert read_varint(target, 1, len(target)) == (value, len(target))


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001")]
)
def test_known_bytes(value: int, encoded: str) -> None:
    target = bytearray()
    write_varint(target, value)
    assert target.hex() == encoded


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "8080808080", "808080808000", "ffffffff1f"])
def test_malformed_int(encoded: str) -> None:
    data = bytes.fromhex(encoded)
    with pytest.raises(CorruptBatchError):
        read_varint(data, 0, len(data))


@pytest.mark.parametrize("encoded", ["80" * 10 + "00", "ff" * 9 + "02", "80" * 9])
def test_malformed_long(encoded: str) -> None:
    data = bytes.fromhex(encoded)
    with pytest.raises(CorruptBatchError):
        read_varlong(data, 0, len(data))
