"""`semel doctor`: look at this machine and say, line by line, what is there and what to do about the rest."""

import argparse
import sys
from collections.abc import Iterable

from semel.cli.diagnosis import Diagnosis, Level, examine_all
from semel.cli.exit_code import ExitCode
from semel.cli.output import Colour, Format, add_format, paint, print_json

COLOURS = {Level.OK: Colour.GREEN, Level.NOTE: Colour.YELLOW, Level.PROBLEM: Colour.RED}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_format(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Examine everything; a problem means that some command of semel cannot work here."""
    diagnoses = examine_all()
    if options.format == Format.JSON:
        print_json(_as_json(diagnoses))
    else:
        _print_text(diagnoses)
    troubled = any(diagnosis.level is Level.PROBLEM for diagnosis in diagnoses)
    return ExitCode.ENVIRONMENT if troubled else ExitCode.HELD


def _as_json(diagnoses: Iterable[Diagnosis]) -> dict[str, object]:
    return {
        "schema": 1,
        "diagnoses": [
            {"name": one.name, "level": one.level.value, "found": one.found, "remedy": one.remedy} for one in diagnoses
        ],
    }


def _print_text(diagnoses: Iterable[Diagnosis]) -> None:
    for one in diagnoses:
        label = paint(f"{one.level:<7}", COLOURS[one.level], sys.stdout)
        print(f"{label}  {one.name:<14}  {one.found}")
        if one.remedy:
            print(f"{'':<7}  {'':<14}  next: {one.remedy}")
