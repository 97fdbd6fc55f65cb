"""`semel demo`: what works so far, shown in a few seconds.

Records go into Kafka record batches with each codec and come back; then bits of the batch are flipped, one at a time,
and each damaged batch must be refused. The exit code is 1 if anything comes back changed or damage goes unnoticed.
"""

import argparse
from collections.abc import Sequence
from time import perf_counter_ns
from typing import NamedTuple

from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json, render_table
from semel.errors import ProtocolError
from semel.protocol.compression import Codec
from semel.protocol.record_batch import (
    CRC_START,
    DraftRecord,
    Record,
    check_batch,
    decode_records,
    encode_batch,
    read_header,
)

FLIPS = 64
START_MS = 1_700_000_000_000


class Trial(NamedTuple):
    """One codec's result."""

    codec: Codec
    batch_bytes: int
    encoded_per_s: int
    decoded_per_s: int
    equal: bool
    flips_refused: int

    @property
    def held(self) -> bool:
        """Nothing changed and no damage went unnoticed."""
        return self.equal and self.flips_refused == FLIPS


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_format(parser)
    parser.add_argument("--records", type=_count, default=20_000, metavar="N", help="records per codec (default 20000)")


def run(options: argparse.Namespace) -> ExitCode:
    """Try every codec and print one line each."""
    narrate(f"{options.records} records into a Kafka record batch and back, then {FLIPS} single-bit damages, per codec")
    drafts = draft_records(options.records)
    trials = [attempt(codec, drafts) for codec in Codec]
    if options.format == Format.JSON:
        print_json(
            {"schema": 1, "records": options.records, "flips": FLIPS, "trials": [_as_json(one) for one in trials]}
        )
    else:
        print(_render(trials))
    return ExitCode.HELD if all(trial.held for trial in trials) else ExitCode.BROKEN


def draft_records(count: int) -> list[DraftRecord]:
    """Make records with everything that a codec can get wrong: nulls, headers, times that go back."""
    return [
        DraftRecord(
            key=b"order-%d" % (number % 100) if number % 7 else None,
            value=(b"%020d" % (number * 2_654_435_761)) * 5 if number % 11 else None,
            timestamp_ms=START_MS + number - 3 * (number % 5),
            headers=(("source", b"demo"), ("empty", None)) if number % 3 == 0 else (),
        )
        for number in range(count)
    ]


def attempt(codec: Codec, drafts: Sequence[DraftRecord]) -> Trial:
    """Encode, decode, compare, damage."""
    started_ns = perf_counter_ns()
    batch = encode_batch(drafts, codec=codec)
    encoded_ns = perf_counter_ns()
    records = decode(batch)
    decoded_ns = perf_counter_ns()
    return Trial(
        codec=codec,
        batch_bytes=len(batch),
        encoded_per_s=len(drafts) * 10**9 // (encoded_ns - started_ns),
        decoded_per_s=len(drafts) * 10**9 // (decoded_ns - encoded_ns),
        equal=records == [_as_read(offset, draft) for offset, draft in enumerate(drafts)],
        flips_refused=sum(is_refused(batch, flip) for flip in range(FLIPS)),
    )


def decode(batch: bytes) -> list[Record]:
    """Read a batch as a consumer does: header, checksum, records."""
    header = read_header(batch)
    check_batch(batch, header)
    return decode_records(batch, header)


def is_refused(batch: bytes, flip: int) -> bool:
    """Flip one bit, the flips spread over everything that the checksum covers, and try to read the batch."""
    damaged = bytearray(batch)
    covered = len(batch) - CRC_START
    damaged[CRC_START + flip * covered // FLIPS] ^= 1 << (flip % 8)
    try:
        decode(bytes(damaged))
    except ProtocolError:
        return True
    return False


def _as_read(offset: int, draft: DraftRecord) -> Record:
    return Record(
        offset=offset, timestamp_ms=draft.timestamp_ms, key=draft.key, value=draft.value, headers=draft.headers
    )


def _as_json(trial: Trial) -> dict[str, object]:
    return {**trial._asdict(), "codec": trial.codec.name.lower(), "held": trial.held}


def _render(trials: Sequence[Trial]) -> str:
    headings = ["codec", "batch bytes", "encoded/s", "decoded/s", "read back", "damage refused", "verdict"]
    rows = [
        [
            trial.codec.name.lower(),
            f"{trial.batch_bytes:,}",
            f"{trial.encoded_per_s:,}",
            f"{trial.decoded_per_s:,}",
            "equal" if trial.equal else "CHANGED",
            f"{trial.flips_refused} of {FLIPS}",
            "HELD" if trial.held else "BROKEN",
        ]
        for trial in trials
    ]
    return render_table(headings, rows)


def _count(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 1_000_000:
        raise argparse.ArgumentTypeError("between 1 and 1000000")
    return count
