"""Throw damaged record batches at the columnar decoder and compare its verdict with the slow path.

Usage: tools/fuzz_columns.py --inputs 1000000 [--seed 1] [--compare-every 20]

Four kinds of input, chosen at random: arbitrary bytes; valid batches with bytes changed and the checksum repaired, so
that the parser inside is reached; the same with the checksum left wrong; buffers cut off anywhere. A ProtocolError is
right, any other exception is a finding, and so are rows that differ from what the slow path reads. A finding prints
the seed and the input and ends with exit code 1. A crash of the process is a finding too: run it again with the seed.
"""

import argparse
import random
import re
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from semel.errors import ProtocolError
from semel.protocol.batch_header import write_crc
from semel.protocol.columns import decode_columns
from semel.protocol.record_batch import Codec, DraftRecord, Record, TimestampType, encode_batch
from tests.unit.protocol.rows import read_fast, read_slow

BYTES_MAX = 1 << 22
TIMESTAMP_MS_MAX = 9_223_372_036_854_775
EDGES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)


def _cell(rng: random.Random) -> bytes | None:
    return None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 1, 5, 60, 130)))


def _draft(rng: random.Random) -> DraftRecord:
    headers = tuple((f"h{index}", _cell(rng)) for index in range(rng.choice((0, 0, 1, 3))))
    return DraftRecord(key=_cell(rng), value=_cell(rng), timestamp_ms=rng.getrandbits(41), headers=headers)


def _seeds(rng: random.Random) -> list[bytes]:
    return [
        encode_batch(
            [_draft(rng) for _ in range(rng.choice((0, 1, 2, 5)))],
            base_offset=rng.choice((0, 7, 2**40)),
            codec=codec,
            timestamp_type=rng.choice(list(TimestampType)),
            last_offset_delta=rng.choice((4, 9)),
            transactional=rng.random() < 0.3,
            producer_id=rng.choice((-1, 3)),
        )
        for codec in (Codec.NONE, Codec.NONE, Codec.NONE, *Codec)
        for _ in range(6)
    ]


def _mutate(rng: random.Random, batch: bytearray, start: int) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(min(start, len(batch) - 1), len(batch))
        match rng.randrange(4):
            case 0:
                batch[at] ^= 1 << rng.randrange(8)
            case 1:
                batch[at] = rng.choice(EDGES)
            case 2:
                del batch[at]
            case _:
                batch.insert(at, rng.choice(EDGES))


def _arbitrary(rng: random.Random, _seed: bytes) -> bytes:
    return rng.randbytes(rng.choice((0, 5, 12, 60, 61, 90, 200)))


def _repaired(rng: random.Random, seed: bytes) -> bytes:
    batch = bytearray(seed)
    _mutate(rng, batch, 61 if rng.random() < 0.8 else 22)
    if len(batch) < 61:
        return bytes(batch)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    batch[22] &= 0xDF  # control batches carry no rows
    write_crc(batch)
    return bytes(batch)


def _damaged(rng: random.Random, seed: bytes) -> bytes:
    batch = bytearray(seed)
    _mutate(rng, batch, 0)
    return bytes(batch)


def _cut(rng: random.Random, seed: bytes) -> bytes:
    return (_repaired(rng, seed) + seed)[: rng.randrange(2 * len(seed))]


KINDS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _arbitrary,
    *(_repaired,) * 6,
    _damaged,
    _cut,
)


def _rows(read: Callable[[], list[Record]]) -> list[Record] | None:
    try:
        found = read()
    except ProtocolError:
        return None
    # Columns hold microseconds and refuse times that plain milliseconds still can say.
    return None if any(abs(record.timestamp_ms) > TIMESTAMP_MS_MAX for record in found) else found


def _judge(data: bytes, compare: bool) -> str:
    if compare:
        fast = _rows(lambda: read_fast(data, bytes_max=BYTES_MAX, read_committed=False))
        slow = _rows(lambda: read_slow(data))
        if fast != slow and not _only_slow_accepts(data, fast):
            raise AssertionError(f"columns read {fast}, the slow path {slow}")
    try:
        decoded = decode_columns(data, topic="fuzz", partition=0, include_headers=True, bytes_max=BYTES_MAX)
    except ProtocolError as error:
        return re.sub(r"(0x)?[0-9a-f]*[0-9][0-9a-f]*", "n", error.summary.split(":")[0])
    return "rows" if decoded.rows.num_rows else "no rows"


def _only_slow_accepts(data: bytes, fast: list[Record] | None) -> bool:
    """Batches whose offsets fall are an error in columns; the slow path reads each batch for itself."""
    try:
        decode_columns(data, topic="fuzz", partition=0, bytes_max=BYTES_MAX)
    except ProtocolError as error:
        return fast is None and "below the end of the batch before" in error.summary
    return False


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzz the columnar record-batch decoder.")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compare-every", type=int, default=20, help="also read every n-th input on the slow path")
    return parser.parse_args()


def main() -> int:
    options = _arguments()
    rng = random.Random(options.seed)
    seeds = _seeds(rng)
    verdicts: Counter[str] = Counter()
    started = time.perf_counter()
    for index in range(options.inputs):
        if index % 10_000 == 9_999:
            seeds = _seeds(rng)
        data = rng.choice(KINDS)(rng, rng.choice(seeds))
        try:
            verdicts[_judge(data, index % options.compare_every == 0)] += 1
        except Exception as error:  # noqa: BLE001  (anything but a ProtocolError is what this program looks for)
            print(f"finding at input {index} of seed {options.seed}: {error!r}\n{data.hex()}")
            return 1
    seconds = time.perf_counter() - started
    for verdict, count in verdicts.most_common(30):
        print(f"{count:>9}  {verdict}")
    print(f"{options.inputs} inputs, {options.inputs / seconds:.0f} inputs/s, no finding (seed {options.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
