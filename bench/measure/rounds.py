"""Rounds: the same work on both brokers in turns, and what can be said of it on any machine.

A figure means little by itself: the machine, its load and its disk are in it. A ratio of two figures of the same round
means more. So every row is measured in turns, several times over, and shown as the ratio's median with its smallest and
largest value.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from semel.cli.output import render_table

ROUNDS = 5
QUICK_ROUNDS = 2

Figures = Mapping[str, float]
Samples = dict[str, dict[str, list[float]]]  # row, then who, then one figure for each round


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much to measure, which parts of it, and where to write it."""

    rounds: int
    quick: bool
    json: Path | None
    only: frozenset[str]

    @classmethod
    def parse(cls, description: str, parts: Sequence[str] = ()) -> Options:
        """Read the command line; `SEMEL_BENCH_QUICK=1` stands for `--quick` where there is none."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--rounds", type=int, help=f"repetitions (default {ROUNDS})")
        parser.add_argument("--quick", action="store_true", help="little work: does it run? The figures mean nothing")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure here")
        if parts:
            parser.add_argument("--only", action="append", choices=parts, help="measure this part; may be repeated")
        given = parser.parse_args()
        quick = given.quick or os.environ.get("SEMEL_BENCH_QUICK", "0") not in {"", "0"}
        rounds = given.rounds if given.rounds is not None else QUICK_ROUNDS if quick else ROUNDS
        if rounds < 1:
            parser.error("--rounds must be at least 1")
        only = frozenset(getattr(given, "only", None) or parts)
        return cls(rounds=rounds, quick=quick, json=given.json, only=only)

    @property
    def note(self) -> str:
        """What a reader of the table must know."""
        warning = "; quick: too little work for the figures to mean anything" if self.quick else ""
        return f"rounds: {self.rounds}; median (min .. max){warning}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Several values of one quantity."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Sum up."""
        every = list(values)
        return cls(median=statistics.median(every), least=min(every), most=max(every))

    def __str__(self) -> str:
        """Write as the tables do."""
        return f"{self.median:.2f} ({self.least:.2f} .. {self.most:.2f})"


def ratio(over: list[float], under: list[float]) -> Spread:
    """One ratio for each round."""
    return Spread.of(a / b for a, b in zip(over, under, strict=True))


def run_rounds(
    who: Iterable[str], work: Callable[[str], Figures], rounds: int, *, label: str, warm_up: bool = True
) -> Samples:
    """Do the work for each in turns, after a first time that does not count; who begins changes with every round."""
    order = list(who)
    samples: Samples = {}
    for number in range(-1 if warm_up else 0, rounds):
        narrate(f"{label}: {'warming up' if number < 0 else f'round {number + 1} of {rounds}'}")
        for name in order:
            for row, figure in work(name).items():
                if number >= 0:
                    samples.setdefault(row, {}).setdefault(name, []).append(figure)
        order.reverse()
    return samples


def narrate(text: str) -> None:
    """One line that is written over, and nothing at all where nobody watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def print_table(headings: list[str], rows: list[list[str]]) -> None:
    """Print after the line of progress is gone."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    print(render_table(headings, rows), flush=True)


def write_json(options: Options, row: str, results: Mapping[str, object]) -> None:
    """Keep every figure, if somebody asked for it."""
    if options.json is not None:
        document = {"schema": 1, "row": row, "rounds": options.rounds, "quick": options.quick, **results}
        options.json.write_text(json.dumps(document, indent=2) + "\n")
