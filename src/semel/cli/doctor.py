"""`semel doctor`: look at this machine and say, line by line, what is there and what to do about the rest."""

import argparse
import sys
from collections.abc import Iterable

from semel.cli.connecting import add_command_config
from semel.cli.diagnosis import Diagnosis, Level, examine_all
from semel.cli.exit_code import ExitCode
from semel.cli.output import Colour, Format, add_format, paint, print_json
from semel.errors import ConfigError

COLOURS = {Level.OK: Colour.GREEN, Level.NOTE: Colour.YELLOW, Level.PROBLEM: Colour.RED}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--security", action="store_true", help="what is weak: on this machine, and of a cluster")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="with --security: a cluster to look at")
    add_command_config(parser)
    add_format(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Examine everything; a problem means that some command of semel cannot work here, or that somebody can get in."""
    if not options.security and (options.bootstrap or options.command_config):
        raise ConfigError("--bootstrap and --command-config are about --security", you_want="--security beside them")
    if options.command_config and not options.bootstrap:
        raise ConfigError(
            "--command-config says how to connect, and --bootstrap is missing",
            you_want="--bootstrap localhost:9092 beside it",
        )
    if options.security:
        from semel.cli.diagnosis_security import examine_security

        diagnoses = examine_security(options.bootstrap, options.command_config)
    else:
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
