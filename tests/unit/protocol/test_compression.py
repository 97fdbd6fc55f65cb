"""Codecs: round trips, foreign framings, damage and bombs."""

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptBatchError, ProtocolError, UnsupportedVersionError
from semel.protocol.compression import (
    Codec,
    OutputFullError,
    codec_of,
    compress,
    compress_in_pieces,
    compress_into,
    decompress,
    decompress_into,
)

PACKING = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"exactly once, " * 20_000


@given(st.sampled_from(Codec), st.binary(max_size=2000), st.integers(1, 60))
def test_round_trip(codec: Codec, data: bytes, repeats: int) -> None:
    whole = data * repeats
    for view in (whole, bytearray(whole), memoryview(whole)):
        assert bytes(decompress(codec, compress(codec, view))) == whole


@pytest.mark.parametrize("codec", Codec)
def test_large_data(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert bytes(decompress(codec, packed)) == TEXT
    assert codec is Codec.NONE or len(packed) < len(TEXT) / 10


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("times", [1, 20])
def test_in_pieces_it_is_the_same_data_and_slow_codecs_have_pauses(codec: Codec, times: int) -> None:
    work, pauses = compress_in_pieces(codec, TEXT * times), 0
    while True:
        try:
            next(work)
            pauses += 1
        except StopIteration as end:
            packed = end.value
            break
    assert bytes(decompress(codec, packed)) == TEXT * times
    assert codec not in (Codec.GZIP, Codec.ZSTD) or pauses > times


@pytest.mark.parametrize("codec", PACKING)
def test_bomb_ends_at_the_limit(codec: Codec) -> None:
    packed = compress(codec, bytes(50_000_000))
    with pytest.raises(ProtocolError, match="more than 100000 bytes"):
        decompress(codec, packed, bytes_max=100_000)


@pytest.mark.parametrize("codec", Codec)
def test_exact_room_is_enough(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert bytes(decompress(codec, packed, bytes_max=len(TEXT))) == TEXT
    with pytest.raises(OutputFullError):
        decompress_into(codec, packed, memoryview(bytearray(len(TEXT) - 1)))


@pytest.mark.parametrize("codec", PACKING)
def test_truncated_data_is_an_error(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    for length in (0, 1, 10, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CorruptBatchError):
            decompress(codec, packed[:length])


def test_snappy_without_framing_is_readable() -> None:
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)))) == TEXT


def test_snappy_has_the_framing_of_java() -> None:
    assert compress(Codec.SNAPPY, b"x").startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")


def test_snappy_claim_is_not_believed() -> None:
    claims_2_gib = b"\xff\xff\xff\xff\x07" + b"\x00a"
    with pytest.raises(CorruptBatchError, match="claims"):
        decompress(Codec.SNAPPY, claims_2_gib)


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_lz4_frames_of_others_are_readable(linked: bool, checksum: bool) -> None:
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=checksum, block_linked=linked)
    compressor.compress(TEXT)
    assert bytes(decompress(Codec.LZ4, bytes(compressor.finish()))) == TEXT


def test_lz4_blocks_are_independent() -> None:
    """Kafka's Java code refuses linked blocks: bit 5 of the frame's flags."""
    assert compress(Codec.LZ4, TEXT)[4] & 0x20


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT[:30_000], TEXT], ids=len)
def test_what_fits_is_written_and_nothing_beyond_the_room(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    room = bytearray(len(packed) + 1)
    assert compress_into(codec, data, memoryview(room)[:-1]) == len(packed)
    assert room == packed + b"\x00"
    for short in {0, len(packed) // 2, len(packed) - 1} - {len(packed), -1}:
        with pytest.raises(OutputFullError):
            compress_into(codec, data, memoryview(bytearray(short)))


def test_unknown_codec() -> None:
    with pytest.raises(UnsupportedVersionError, match="codec 5"):
        codec_of(5)
