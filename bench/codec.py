"""Record codecs side by side: semel's columns, aiokafka's compiled codec, kafka-python's, and a plain memory copy.

Everything runs in this process, in turns, several times over; a figure is how many times faster semel is than the peer
in the same round: median (smallest .. largest). Encoding starts from what each side has in practice: Arrow columns
here, Python bytes there. Decoding ends in Arrow columns here, which hold every record; a peer makes one object a
record, and is measured twice: "dropped", where each object is dropped at once, its best case, and "kept", where all
stay, as the columns do (Python's collector then counts). All verify checksums. Where compression is used, most of the
time is in the compression libraries, which differ too.
confluent-kafka has no codec to call: its consumer is measured with a broker, not here.
The copy is numpy's, which also writes large results past the cache; the checksum is the `crc32c` package's.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c as checksum

from semel.protocol.batch_header import CRC_START, iter_headers, stamp
from semel.protocol.columns import decode_columns, encode_columns
from semel.protocol.compression import Codec

ROUNDS = 7
BATCH_BYTES = 256 * 1024
ROWS = {100: 50_000, 1024: 16_000}
PEERS = ("aiokafka", "kafka-python")
COLUMNS = tuple(f"{peer}{how}" for peer in PEERS for how in (", dropped", ", kept"))
CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)
TIME_MS = 1_700_000_000_000
MEMORY_MIB = (32, 128)
COPY_CASES = ((1024, 16_384, 16), (1024, BATCH_BYTES, 16), (1024, BATCH_BYTES, 100), (100, BATCH_BYTES, 16))
MEMORY_PROGRAM = """
import sys
from semel.protocol.columns import decode_columns
decode_columns(b"", topic="orders", partition=0)
def resident(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))
before = resident("VmRSS")
with open(sys.argv[1], "rb") as file:
    data = file.read()
decoded = decode_columns(data, topic="orders", partition=0)
print(resident("VmHWM") - before, len(data), decoded.rows.nbytes)
"""

Work = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The same records for everybody, as rows, as columns and encoded."""

    value_bytes: int
    codec: Codec
    keys: list[bytes]
    values: list[bytes]
    key_column: Any
    value_column: Any
    encoded: memoryview


def make_case(value_bytes: int, codec: Codec, batch_bytes: int = BATCH_BYTES, rows: int | None = None) -> Case:
    """Values are half noise, half repeated, so that compression has something to do."""
    rng = random.Random(value_bytes)
    count = rows or ROWS[value_bytes]
    tail = b"s" * (value_bytes - value_bytes // 2)
    values = [rng.randbytes(value_bytes // 2) + tail for _ in range(count)]
    keys = [b"%010d" % rng.randrange(10**10) for _ in range(count)]
    key_column, value_column = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    batches = encode_columns(key_column, value_column, timestamps_ms=TIME_MS, codec=codec, batch_bytes_max=batch_bytes)
    offset = 0
    for batch, records in zip(batches, batches.record_counts, strict=True):
        stamp(batch, base_offset=offset, leader_epoch=0)
        offset += records
    return Case(
        value_bytes=value_bytes,
        codec=codec,
        keys=keys,
        values=values,
        key_column=key_column,
        value_column=value_column,
        encoded=batches.buffer,
    )


def semel_encode(case: Case, batch_bytes: int = BATCH_BYTES) -> Work:
    return lambda: encode_columns(
        case.key_column, case.value_column, timestamps_ms=TIME_MS, codec=case.codec, batch_bytes_max=batch_bytes
    )


def semel_decode(case: Case) -> Work:
    return lambda: decode_columns(case.encoded, topic="orders", partition=0)


def peer_encode(case: Case, builder: Any) -> Work:
    def encode() -> list[Any]:
        built: list[Any] = []
        batch, first = None, 0
        for row, (key, value) in enumerate(zip(case.keys, case.values, strict=True)):
            if batch is None or batch.append(row - first, TIME_MS, key, value, []) is None:
                if batch is not None:
                    built.append(batch.build())
                batch, first = builder(2, int(case.codec), 0, -1, -1, -1, BATCH_BYTES), row
                batch.append(0, TIME_MS, key, value, [])
        built.append(batch.build() if batch else b"")
        return built

    return encode


def peer_decode(case: Case, reader: Any, *, kept_max: int | None) -> Work:
    data = bytes(case.encoded)

    def decode() -> deque[Any]:
        records: deque[Any] = deque(maxlen=kept_max)
        batches = reader(data)
        while batches.has_next():
            batch = batches.next_batch()
            batch.validate_crc()
            records.extend(batch)
        return records

    return decode


def peers() -> Iterator[tuple[str, Any, Any]]:
    import aiokafka.record.default_records as aio
    import aiokafka.record.memory_records as aio_memory
    import kafka.record.default_records as plain
    import kafka.record.memory_records as plain_memory

    yield "aiokafka", aio.DefaultRecordBatchBuilder, aio_memory.MemoryRecords
    yield "kafka-python", plain.DefaultRecordBatchBuilder, plain_memory.MemoryRecords


def measure(work: dict[str, Work], rounds: int) -> dict[str, list[float]]:
    """Run everything in turns; what cannot run here is left out."""
    times: dict[str, list[float]] = {}
    for name, run in list(work.items()):
        try:
            run()
        except Exception as error:  # noqa: BLE001 - a peer without a codec library is no reason to stop
            print(f"  {name} cannot do this here: {type(error).__name__}: {error}")
            del work[name]
    for _ in range(rounds):
        for name, run in work.items():
            started = time.perf_counter()
            result = run()
            times.setdefault(name, []).append(time.perf_counter() - started)
            del result
    return times


def ratio(over: list[float], under: list[float]) -> str:
    each = [a / b for a, b in zip(over, under, strict=True)]
    return f"{statistics.median(each):6.2f} ({min(each):.2f} .. {max(each):.2f})"


def show(case: Case, direction: str, rounds: int) -> None:
    is_encode = direction == "encode"
    work = {"semel": semel_encode(case) if is_encode else semel_decode(case)}
    for name, builder, reader in peers():
        if is_encode:
            work[f"{name}, kept"] = peer_encode(case, builder)
        else:
            work[f"{name}, dropped"] = peer_decode(case, reader, kept_max=0)
            work[f"{name}, kept"] = peer_decode(case, reader, kept_max=None)
    times = measure(work, rounds)
    rate = len(case.values) / statistics.median(times["semel"]) / 1e6
    cells = [f"{ratio(times[name], times['semel']) if name in times else '':>24}" for name in COLUMNS]
    print(
        f"{direction:7} {case.value_bytes:5} B {case.codec.name.lower():5} {rate:7.1f} M/s {' '.join(cells)}",
        flush=True,
    )


def checksum_only(case: Case) -> Work:
    spans = [(at + CRC_START, at + header.size_bytes) for at, header in iter_headers(case.encoded)]
    return lambda: [checksum(case.encoded[start:end]) for start, end in spans]


def show_copy(rounds: int) -> None:
    """Both directions must compute every checksum, so that alone is shown too: the rest is what semel adds."""
    print("\ntime over that of a numpy copy of the same encoded bytes (smaller is better)")
    for value_bytes, batch_bytes, megabytes in COPY_CASES:
        case = make_case(value_bytes, Codec.NONE, batch_bytes, rows=megabytes * 1_000_000 // value_bytes)
        work: dict[str, Work] = {
            "encode": semel_encode(case, batch_bytes),
            "decode": semel_decode(case),
            "checksum": checksum_only(case),
            "copy": np.frombuffer(case.encoded, dtype=np.uint8).copy,
        }
        times = measure(work, 2 * rounds)
        cells = [f"{name} {ratio(times[name], times['copy'])}" for name in ("encode", "decode", "checksum")]
        place = f"{value_bytes:5} B, {megabytes:3} MB in batches of {batch_bytes:>7}"
        print(f"{place}: {'   '.join(cells)}", flush=True)


def show_memory() -> None:
    """Peak of resident memory in a fresh process above what it had before it read the input, as a line through two."""
    print("\npeak memory of reading and decoding n bytes (n = decompressed size)")
    for value_bytes in ROWS:
        for codec in CODECS:
            (few, few_peak, _, _), (many, many_peak, size, rows) = (
                peak_of(value_bytes, codec, mib) for mib in MEMORY_MIB
            )
            slope = (many_peak - few_peak) / (many - few)
            rest_mib = (few_peak - slope * few) / 2**20
            print(
                f"{value_bytes:5} B {codec.name.lower():5} peak {slope:.2f} n + {rest_mib:.1f} MiB"
                f"   (input {size / many:.2f} n, columns {rows / many:.2f} n)",
                flush=True,
            )


def peak_of(value_bytes: int, codec: Codec, mib: int) -> tuple[int, int, int, int]:
    """Bytes: of the records, at the peak, of the input, of the columns."""
    case = make_case(value_bytes, codec, rows=mib * 2**20 // (value_bytes + 20))
    n = sum(map(len, case.values)) + sum(map(len, case.keys)) + 8 * len(case.values)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batches"
        path.write_bytes(case.encoded)
        command = [sys.executable, "-c", MEMORY_PROGRAM, str(path)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    peak, size, rows_bytes = (int(number) for number in answer.split())
    return n, peak, size, rows_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the record codecs.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    print(f"how many times faster semel is, {rounds} rounds, batches of {BATCH_BYTES} bytes: median (min .. max)")
    print(f"{'':31} {' '.join(f'{name:>24}' for name in COLUMNS)}")
    for value_bytes in ROWS:
        for codec in CODECS:
            case = make_case(value_bytes, codec)
            for direction in ("encode", "decode"):
                show(case, direction, rounds)
    show_copy(rounds)
    show_memory()


if __name__ == "__main__":
    main()
