"""A place to write batches on before they go past the cache to where they belong, with their checksum computed.

Why: a large result does not fit the cache. Written in place, it would first be loaded, then stored, then loaded again
     for its checksum. A scratch area of a few kilobytes stays in the cache; what leaves it is read once for both
     purposes.
"""

from typing import Any, NamedTuple

from semel.protocol.kernels.checksum import (
    BLOCK_BYTES,
    IN_KERNELS,
    IN_STATE,
    WORDS,
    add_bytes,
    enter_state,
    leave_state,
    stream_blocks,
)
from semel.protocol.kernels.jit import called, inlined, types
from semel.protocol.kernels.memory import LINE_BYTES, copy_bytes, store_big32

FULL_BYTES = 4096
STATE_BYTES = 256

_ONES = 0xFFFFFFFF
_CRC_AT, _CRC_START = 17, 21


class Scratch(NamedTuple):
    """Addresses: where the checksum of whole blocks is kept, and where batches are written, aligned; zero for none."""

    state: int
    area: int


class Work(NamedTuple):
    """A batch on the scratch: the address that its first byte has or had, how much has left, the checksum of that."""

    place: int
    done: int
    crc: int


SCRATCH = types.NamedUniTuple(types.int64, 2, Scratch)

_stream: Any = stream_blocks(WORDS) if IN_KERNELS else None


@inlined
def begin(scratch: Scratch, target: int) -> Work:
    """Start a batch, on the same place within a cache line as it will have in the end."""
    return Work(scratch.area + (target & (LINE_BYTES - 1)), 0, _ONES)


@called
def _send(scratch: Scratch, target: int, work: Work, size: int) -> Work:
    """Send off what fills whole blocks of whole cache lines."""
    place, done, crc = work
    if done == 0:
        # The first piece is short: it ends where a cache line of the target begins, so
        # that all later ones can be streamed.
        done = min(size, _CRC_START + (-(target + _CRC_START) & (LINE_BYTES - 1)))
        crc = add_bytes(crc, place + _CRC_START, done - _CRC_START)
        copy_bytes(target, 0, place, 0, done)
    blocks = (size - done) // BLOCK_BYTES
    if blocks > 0 and crc != IN_STATE:
        enter_state(scratch.state, place + done, crc)
        copy_bytes(target, done, place, done, BLOCK_BYTES)
        crc = IN_STATE
        done += BLOCK_BYTES
        blocks -= 1
    if blocks > 0:
        _stream(place + done, blocks, scratch.state, target + done)
    return Work(place, done + blocks * BLOCK_BYTES, crc)


@inlined
def clear(scratch: Scratch, target: int, work: Work, size: int) -> Work:
    """Make room on the scratch once there is much on it; what fills no block is moved to its front."""
    if size - work.done < FULL_BYTES:
        return work
    sent = _send(scratch, target, work, size)
    copy_bytes(scratch.area, 0, sent.place, sent.done, size - sent.done)
    return Work(scratch.area - sent.done, sent.done, sent.crc)


@inlined
def finish(scratch: Scratch, target: int, work: Work, size: int) -> None:
    """Send off the rest, and the checksum."""
    place, done, crc = _send(scratch, target, work, size)
    if crc == IN_STATE:
        crc = leave_state(scratch.state)
    crc = add_bytes(crc, place + done, size - done)
    copy_bytes(target, done, place, done, size - done)
    store_big32(target, _CRC_AT, crc ^ _ONES)
