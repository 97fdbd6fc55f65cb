"""The frame around every command: usage errors, exit codes, and failures told in one text without a traceback."""

import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from types import ModuleType

import pytest

import semel
from semel.cli import COMMANDS, main
from semel.cli.exit_code import ExitCode, exit_code_of
from semel.cli.shell import Command, run_guarded
from semel.errors import (
    ConfigError,
    ConnectionFailure,
    EnvironmentFailure,
    GuaranteeError,
    MissingExtraError,
    OutcomeUnknownError,
    ProtocolError,
    SemelError,
)

PROBE = (Command("probe", "probe_command", "a command made for this test"),)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A command whose behaviour the test chooses."""
    module = ModuleType("probe_command")

    def configure(parser: ArgumentParser) -> None:
        parser.add_argument("--count", type=int, default=1)

    def run(options: Namespace) -> ExitCode:
        sys.stdout.write(f"count={options.count}\n")
        return ExitCode.HELD

    module.configure, module.run = configure, run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "probe_command", module)
    return module


def raising(error: BaseException) -> object:
    def run(options: Namespace) -> ExitCode:
        raise error

    return run


def test_a_command_gets_its_own_options(probe: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_guarded(PROBE, ["probe", "--count", "3"]) == 0
    assert capsys.readouterr() == ("count=3\n", "")


@pytest.mark.parametrize("code", [ExitCode.HELD, ExitCode.BROKEN, ExitCode.UNKNOWN, ExitCode.ENVIRONMENT])
def test_the_commands_verdict_is_the_exit_code(probe: ModuleType, code: ExitCode) -> None:
    probe.run = lambda _: code  # type: ignore[attr-defined]
    assert run_guarded(PROBE, ["probe"]) == code


@pytest.mark.parametrize(
    "arguments",
    [["--nonsense"], ["probe", "--count", "many"], ["probe", "--nonsense"], ["probe", "extra"], ["prob"], []],
)
def test_wrong_usage_is_3_and_says_where_to_read_more(
    probe: ModuleType, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_guarded(PROBE, arguments) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "--help" in err
    assert "Traceback" not in err


def test_the_exit_codes_are_a_promise() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "HELD": 0,
        "BROKEN": 1,
        "UNKNOWN": 2,
        "USAGE": 3,
        "ENVIRONMENT": 4,
        "INTERRUPTED": 130,
        "PIPE_CLOSED": 141,
    }


def test_a_misspelt_command_is_answered_with_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docter"]) == ExitCode.USAGE
    assert "semel doctor" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), ExitCode.USAGE),
        (GuaranteeError("x", rule="S014"), ExitCode.USAGE),
        (MissingExtraError.of("delta", "this"), ExitCode.ENVIRONMENT),
        (EnvironmentFailure("x"), ExitCode.ENVIRONMENT),
        (ConnectionFailure("x"), ExitCode.UNKNOWN),
        (ProtocolError("x"), ExitCode.UNKNOWN),
        (OutcomeUnknownError("x"), ExitCode.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, SemelError) else None,
)
def test_no_error_claims_a_broken_guarantee(error: SemelError, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def test_an_error_is_told_as_its_text(probe: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    probe.run = raising(ConfigError("acks is 1", you_want="acks=all"))  # type: ignore[attr-defined]
    assert run_guarded(PROBE, ["probe"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "semel: acks is 1\n  you want    acks=all\n"


@pytest.mark.parametrize("arguments", [["--debug", "probe"], ["probe", "--debug"]])
def test_debug_shows_the_traceback_as_well(
    probe: ModuleType, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    probe.run = raising(ConfigError("acks is 1"))  # type: ignore[attr-defined]
    assert run_guarded(PROBE, arguments) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("semel: acks is 1\n")


def test_a_bug_shows_its_traceback_and_is_unknown_not_broken(
    probe: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    probe.run = raising(ZeroDivisionError("oops"))  # type: ignore[attr-defined]
    assert run_guarded(PROBE, ["probe"]) == ExitCode.UNKNOWN
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "internal error: ZeroDivisionError('oops')" in err


def test_a_refusal_of_the_operating_system_is_environment(
    probe: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    probe.run = raising(PermissionError(13, "Permission denied", "/sys/x"))  # type: ignore[attr-defined]
    assert run_guarded(PROBE, ["probe"]) == ExitCode.ENVIRONMENT
    assert capsys.readouterr().err == "semel: [Errno 13] Permission denied: '/sys/x'\n"


def test_ctrl_c_leaves_quietly_with_130(probe: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    probe.run = raising(KeyboardInterrupt())  # type: ignore[attr-defined]
    try:
        code = run_guarded(PROBE, ["probe"])
    except KeyboardInterrupt:  # would end the whole test run
        pytest.fail("Ctrl-C was not caught")
    assert code == 130
    assert capsys.readouterr() == ("", "")


def test_every_command_of_the_table_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert main([command.name, "--help"]) == 0
        assert f"semel {command.name}" in capsys.readouterr().out


def test_help_lists_every_command_and_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert [command.name for command in COMMANDS if f"  {command.name} " not in out] == []
    assert "0 held or fine, 1 broken, 2 unknown, 3 usage, 4 environment" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"semel {semel.__version__}\n"


def run_semel(*arguments: str, stdout: int = subprocess.PIPE, preamble: str = "") -> "subprocess.CompletedProcess[str]":
    program = f"import sys; {preamble}\nfrom semel.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    report = "import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    loaded = run_semel(*arguments, preamble=report).stderr.split()
    heavy = {"numpy", "numba", "pyarrow", "pyspark", "asyncio", "json", "semel.protocol", "semel.engine"}
    assert "semel.cli" in loaded
    assert heavy & set(loaded) == set()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_ends_the_command_without_a_word(
    unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run_semel("doctor", stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (ExitCode.PIPE_CLOSED, "")


def test_output_that_cannot_be_written_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = run_semel("doctor", stdout=full.fileno())
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "No space left" in done.stderr
