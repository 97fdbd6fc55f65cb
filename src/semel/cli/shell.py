"""From arguments to an exit code: choose the command, run it, and turn every failure into a text and a code."""

import argparse
import difflib
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

import semel
from semel.cli.exit_code import ExitCode, exit_code_of
from semel.errors import ConfigError, SemelError


class Command(NamedTuple):
    """One command: the module is imported only when the command runs."""

    name: str
    module: str
    summary: str


class UsageParser(argparse.ArgumentParser):
    """An argument parser whose complaints leave with semel's usage code instead of argparse's 2."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to read more."""
        self.exit(ExitCode.USAGE, f"{self.prog}: {message}\n  next        {self.prog} --help\n")


def run_guarded(commands: Sequence[Command], arguments: list[str]) -> int:
    """Run the command that the arguments name; nothing but an exit code comes out."""
    try:
        return _flushed(lambda: _dispatch(commands, arguments))
    except (SystemExit, KeyboardInterrupt, BrokenPipeError) as end:
        return _end_quietly(end)
    except Exception as error:  # noqa: BLE001 - Python's own exit code would be 1, which claims a broken guarantee
        return _report(error, debug="--debug" in arguments)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does: in order, leaving neither a process nor a folder behind."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # Without it SIGTERM ends Python at once, and no `with` block is left.
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _flushed(work: Callable[[], int]) -> int:
    """Flush inside the guard: a full disk or a closed pipe often shows only here."""
    try:
        return work()
    finally:
        # There is none in a process that was started with its stdout closed.
        if sys.stdout is not None:
            sys.stdout.flush()


def _end_quietly(end: SystemExit | KeyboardInterrupt | BrokenPipeError) -> int:
    match end:
        case SystemExit():
            return end.code if isinstance(end.code, int) else ExitCode.HELD
        case KeyboardInterrupt():
            return ExitCode.INTERRUPTED
        case BrokenPipeError():
            _abandon_stdout()
            return ExitCode.PIPE_CLOSED


def _report(error: Exception, *, debug: bool) -> ExitCode:
    match error:
        case SemelError():
            text, code = str(error), exit_code_of(error)
        case OSError():
            text, code = str(error), ExitCode.ENVIRONMENT
        case _:
            # Nobody knows what it means, so nothing is claimed, and the traceback is what a report of it needs.
            text, code, debug = f"internal error: {error!r}", ExitCode.UNKNOWN, True
    if debug:
        traceback.print_exception(error)
    print(f"semel: {text}", file=sys.stderr)
    return code


def _abandon_stdout() -> None:
    """Point stdout at nothing, or the interpreter complains once more when it flushes at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def _dispatch(commands: Sequence[Command], arguments: list[str]) -> int:
    root = _root_parser(commands)
    chosen = root.parse_args(arguments)
    if chosen.command is None:
        root.print_help(sys.stderr)
        return ExitCode.USAGE
    # Two parsers, one after the other: only the module of the chosen command is imported, and `--help` stays quick.
    command, rest = find_command(commands, [chosen.command, *chosen.arguments])
    options = parser_of(command).parse_args(rest)
    return int(importlib.import_module(command.module).run(options))


def parser_of(command: Command) -> UsageParser:
    """The parser of one command, with all its options."""
    parser = UsageParser(prog=f"semel {command.name}", description=command.summary)
    importlib.import_module(command.module).configure(parser)
    _add_debug(parser)
    return parser


def _root_parser(commands: Sequence[Command]) -> UsageParser:
    width = max(len(command.name) for command in commands)
    parser = UsageParser(
        prog="semel",
        usage="semel [--help] [--version] [--debug] command ...",
        description="Delivery guarantees for Kafka and Spark pipelines: declared, enforced and proven.",
        epilog="\n".join(
            [
                "commands:",
                *(f"  {command.name:<{width}}  {command.summary}" for command in commands),
                "",
                "exit codes: 0 held or fine, 1 broken, 2 unknown, 3 usage, 4 environment",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"semel {semel.__version__}")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    _add_debug(parser)
    return parser


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")


def find_command(commands: Sequence[Command], words: list[str]) -> tuple[Command, list[str]]:
    """The command that the first words name, the longest name first; and the words behind it."""
    by_name = {command.name: command for command in commands}
    # `drill replay` is a command of its own, and so is `drill`.
    for length in (2, 1):
        if (found := by_name.get(" ".join(words[:length]))) is not None:
            return found, words[length:]
    name = words[0]
    close = difflib.get_close_matches(name, by_name, n=1)
    raise ConfigError(
        f"there is no command {name!r}",
        you_want=f"semel {close[0]}" if close else " | ".join(by_name),
        next_command="semel --help",
    )
