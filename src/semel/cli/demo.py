"""`semel demo`: what works so far, shown in a few seconds.

Arrow columns go into Kafka record batches with each codec and come back; then bits of a batch are flipped, one by one,
and each damaged batch must be refused. The exit code is 1 if anything comes back changed or damage goes unnoticed.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json, render_table

if TYPE_CHECKING:
    from semel.cli.roundtrip import Trial

RECORDS_MAX = 5_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_format(parser)
    parser.add_argument(
        "--records", type=_count, default=200_000, metavar="N", help="records per codec (default 200000)"
    )


def run(options: argparse.Namespace) -> ExitCode:
    """Try every codec and print one line each."""
    narrate("loading the compiled kernels (the very first time they are compiled, which takes some seconds)")
    from semel.cli import roundtrip
    from semel.protocol.compression import Codec

    narrate(f"{options.records} records into Kafka record batches and back, then {roundtrip.FLIPS} damages, per codec")
    sample = roundtrip.sample_rows(options.records)
    trials = [roundtrip.attempt(codec, sample) for codec in Codec]
    if options.format == Format.JSON:
        rows = [_as_json(trial) for trial in trials]
        print_json({"schema": 1, "records": options.records, "flips": roundtrip.FLIPS, "trials": rows})
    else:
        print(_render(trials))
    return ExitCode.HELD if all(trial.held for trial in trials) else ExitCode.BROKEN


def _as_json(trial: "Trial") -> dict[str, object]:
    return {**trial._asdict(), "codec": trial.codec.name.lower(), "held": trial.held}


def _render(trials: Sequence["Trial"]) -> str:
    headings = ["codec", "bytes", "encoded/s", "decoded/s", "read back", "damage refused", "verdict"]
    rows = [
        [
            trial.codec.name.lower(),
            f"{trial.encoded_bytes:,}",
            f"{trial.encoded_per_s:,}",
            f"{trial.decoded_per_s:,}",
            "equal" if trial.equal else "CHANGED",
            f"{trial.flips_refused} of {trial.flips}",
            "HELD" if trial.held else "BROKEN",
        ]
        for trial in trials
    ]
    return render_table(headings, rows)


def _count(text: str) -> int:
    count = int(text)
    if not 1 <= count <= RECORDS_MAX:
        raise argparse.ArgumentTypeError(f"between 1 and {RECORDS_MAX}")
    return count
