"""How commands print: plain tables and JSON on stdout, narration on stderr, colour only where it helps."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TextIO


class Format(StrEnum):
    """What `--format` accepts; the last two only where a command says so."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"


class Colour(StrEnum):
    """The few colours used, as terminal codes."""

    GREEN = "32"
    YELLOW = "33"
    RED = "31"


def add_format(parser: argparse.ArgumentParser, *more: Format) -> None:
    """Give a command `--format text|json`, and the formats that it has besides."""
    choices = [form.value for form in (Format.TEXT, Format.JSON, *more)]
    told = f"text (default), {', '.join(choices[1:-1])} or {choices[-1]}" if more else "text (default) or json"
    parser.add_argument("--format", choices=choices, default=Format.TEXT.value, help=told)


def print_json(data: Mapping[str, object]) -> None:
    """Print one JSON document; ASCII only, so no terminal encoding can refuse it."""
    print(json.dumps(data, indent=2))


def narrate(text: str) -> None:
    """Tell a person what is going on, away from the data."""
    print(text, file=sys.stderr, flush=True)


def wants_colour(stream: TextIO) -> bool:
    """Decide about colour: only on a terminal, and never against NO_COLOR."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, colour: Colour, stream: TextIO) -> str:
    """Colour a text if the stream shows colours."""
    return f"\x1b[{colour}m{text}\x1b[0m" if wants_colour(stream) else text


def render_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align columns: numbers to the right, everything else to the left."""
    columns = list(zip(headings, *rows, strict=True))
    cells = [_align(column) for column in columns]
    return "\n".join("  ".join(line).rstrip() for line in zip(*cells, strict=True))


def _align(column: Sequence[str]) -> list[str]:
    width = max(map(len, column))
    # By the first sign: counts have separators, sizes have units.
    numeric = len(column) > 1 and all(cell[:1].isdigit() for cell in column[1:])
    return [cell.rjust(width) if numeric else cell.ljust(width) for cell in column]
