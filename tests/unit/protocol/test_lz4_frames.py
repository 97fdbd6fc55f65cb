"""LZ4 frames: the library reads ours, we read those of others, and damage is an error, never a surprise."""

import random
from struct import pack

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptBatchError
from semel.protocol.compression import Codec, OutputFullError, compress, decompress, decompress_into
from semel.protocol.lz4_frames import BLOCK_BYTES, block_bytes_max

NOISE = random.Random(1).randbytes(3 * BLOCK_BYTES)
TEXT = b"exactly once, " * 20_000
MIXED = TEXT + NOISE + TEXT
JAVA_HEADER = bytes.fromhex("04224d18604082")  # what Kafka's own producer begins with
FULL_BLOCK = compress(Codec.LZ4, TEXT)


@pytest.mark.parametrize("size", [0, 1, 12, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, len(MIXED)])
def test_the_library_reads_our_frames(size: int) -> None:
    packed = compress(Codec.LZ4, MIXED[:size])
    assert packed.startswith(JAVA_HEADER)
    assert bytes(cramjam.lz4.decompress(packed)) == MIXED[:size]
    assert bytes(decompress(Codec.LZ4, packed)) == MIXED[:size]


def test_noise_is_stored_as_it_is() -> None:
    packed = compress(Codec.LZ4, NOISE)
    assert len(packed) == len(JAVA_HEADER) + 3 * (4 + BLOCK_BYTES) + 4


@pytest.mark.parametrize(("code", "block_bytes"), [("50fb", 256 << 10), ("6051", 1 << 20), ("7073", 4 << 20)])
def test_frames_with_larger_blocks_are_read(code: str, block_bytes: int) -> None:
    plain = (TEXT * 20)[:block_bytes]
    block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
    frame = bytes.fromhex("04224d1860" + code) + pack("<I", len(block)) + block + bytes(4)
    assert bytes(cramjam.lz4.decompress(frame)) == plain, "the frame is one that the library knows"
    assert block_bytes_max(memoryview(frame)) == block_bytes
    assert bytes(decompress(Codec.LZ4, frame)) == plain


def test_a_block_may_not_be_larger_than_its_frame_allows() -> None:
    bomb = bytes(cramjam.lz4.compress_block(bytes(10 * BLOCK_BYTES), store_size=False))
    frame = JAVA_HEADER + pack("<I", len(bomb)) + bomb + bytes(4)
    with pytest.raises(CorruptBatchError):
        decompress(Codec.LZ4, frame)


@pytest.mark.parametrize("size", [BLOCK_BYTES + 1, 0x7FFF_FFFF, 0x8000_0000 | (BLOCK_BYTES + 1), 0xFFFF_FFFF])
def test_a_claimed_size_is_not_believed(size: int) -> None:
    with pytest.raises(CorruptBatchError, match="does not fit"):
        decompress(Codec.LZ4, JAVA_HEADER + pack("<I", size) + NOISE)


@pytest.mark.parametrize("short", [1, 100, BLOCK_BYTES, len(MIXED)])
def test_too_little_room_is_no_damage(short: int) -> None:
    room = bytearray(len(MIXED) - short)
    with pytest.raises(OutputFullError):
        decompress_into(Codec.LZ4, compress(Codec.LZ4, MIXED), memoryview(room))


@given(st.integers(0, len(FULL_BLOCK) - 1), st.integers(1, 255), st.integers(0, 2 * len(TEXT)))
def test_damage_ends_in_an_error_or_in_other_bytes_within_the_room(at: int, flip: int, room_bytes: int) -> None:
    damaged = bytearray(FULL_BLOCK)
    damaged[at] ^= flip
    room = bytearray(room_bytes + 64)
    try:
        size = decompress_into(Codec.LZ4, damaged, memoryview(room)[:room_bytes])
    except (CorruptBatchError, OutputFullError):
        size = room_bytes
    assert size <= room_bytes
    assert room[room_bytes:] == bytes(64)
