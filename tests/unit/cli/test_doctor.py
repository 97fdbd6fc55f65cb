"""`semel doctor`: what is missing is named together with what to do, and only a problem changes the exit code."""

import json
import resource
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from semel.cli import diagnosis, doctor, main
from semel.cli.diagnosis import Diagnosis, Level
from semel.cli.exit_code import ExitCode
from semel.errors import EnvironmentFailure, install_command
from semel.protocol.kernels import cache as kernel_cache


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Choose what the examination finds."""
    return lambda *lines: monkeypatch.setattr(doctor, "examine_all", lambda: list(lines))


FINE = Diagnosis("python", Level.OK, "3.13")
MISSING = Diagnosis("delta", Level.NOTE, "deltalake is missing", "pip install 'semel[delta]'")
BAD = Diagnosis("java", Level.PROBLEM, "no Java", "install Java 17 or 21")


@pytest.mark.parametrize(
    ("lines", "code"),
    [((FINE,), ExitCode.HELD), ((FINE, MISSING), ExitCode.HELD), ((FINE, BAD, MISSING), ExitCode.ENVIRONMENT)],
)
def test_only_a_problem_changes_the_exit_code(
    found: Callable[..., None], lines: tuple[Diagnosis, ...], code: ExitCode
) -> None:
    found(*lines)
    assert main(["doctor"]) == code
    assert main(["doctor", "--format", "json"]) == code


def test_each_line_says_what_to_do(found: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    found(FINE, BAD)
    main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["ok", "python", "3.13"],
        ["problem", "java", "no", "Java"],
        ["next:", "install", "Java", "17", "or", "21"],
    ]


def test_json_has_every_field(found: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    found(MISSING)
    main(["doctor", "--format", "json"])
    assert json.loads(capsys.readouterr().out) == {
        "schema": 1,
        "diagnoses": [
            {
                "name": "delta",
                "level": "note",
                "found": "deltalake is missing",
                "remedy": "pip install 'semel[delta]'",
            }
        ],
    }


def test_the_examination_of_this_machine_comes_to_an_end() -> None:
    diagnoses = diagnosis.examine_all()
    names = [one.name for one in diagnoses]
    assert len(set(names)) == len(names)
    assert {"python", "spark", "java", "kernels", "loopback", "cache folder", "temp space"} <= set(names)
    assert [one for one in diagnoses if one.level is not Level.OK and not one.remedy] == []


def test_no_java_is_a_problem_with_the_finders_own_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> None:
        raise EnvironmentFailure("no Java 17 or 21", next_command="pip install 'semel[java]'")

    monkeypatch.setattr(diagnosis, "find_java", nothing)
    assert diagnosis.examine_java() == Diagnosis("java", Level.PROBLEM, "no Java 17 or 21", "pip install 'semel[java]'")


@pytest.mark.parametrize(
    ("version", "level"), [("4.2.0", Level.OK), ("4.1.9", Level.PROBLEM), ("5.4.2.1", Level.PROBLEM)]
)
def test_only_the_spark_that_is_supported_is_fine(monkeypatch: pytest.MonkeyPatch, version: str, level: Level) -> None:
    fake = ModuleType("pyspark")
    fake.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", fake)
    assert diagnosis.examine_spark().level is level


def test_no_spark_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert diagnosis.examine_spark().level is Level.NOTE


def test_kernels_are_compiled_not_yet_compiled_or_have_no_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel_cache, "cache_folder", lambda: None)
    assert diagnosis.examine_kernels().level is Level.NOTE
    monkeypatch.setattr(kernel_cache, "cache_folder", lambda: tmp_path)
    assert diagnosis.examine_kernels().found == "not compiled yet"
    (tmp_path / "decode_1").mkdir()
    (tmp_path / "decode_1" / "decode.scan-1.nbi").touch()
    assert diagnosis.examine_kernels().level is Level.OK


def test_kernels_without_numba_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "semel.protocol.kernels.cache", None)
    assert diagnosis.examine_kernels().level is Level.PROBLEM


def test_a_missing_part_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    missing = diagnosis.examine_part("deltalake", "delta", "the Delta Lake sink")
    assert (missing.level, missing.remedy) == (Level.NOTE, install_command("delta"))


def test_a_closed_loopback_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*address: object, **options: object) -> socket.socket:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "create_server", refuse)
    assert diagnosis.examine_loopback().level is Level.PROBLEM


def test_few_open_files_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    assert diagnosis.examine_open_files().level is Level.NOTE
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert diagnosis.examine_open_files().level is Level.OK


def test_a_cache_folder_that_cannot_be_made_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    monkeypatch.setenv("SEMEL_CACHE", str(occupied / "cache"))
    assert diagnosis.examine_cache_folder().level is Level.PROBLEM
    monkeypatch.setenv("SEMEL_CACHE", str(tmp_path / "new" / "cache"))
    assert diagnosis.examine_cache_folder() == Diagnosis("cache folder", Level.OK, str(tmp_path / "new" / "cache"))
    (tmp_path / "new" / "cache").chmod(0o777)
    shared = diagnosis.examine_cache_folder()
    assert (shared.level, "can be written by others" in shared.found) == (Level.PROBLEM, True)
    assert "chmod go-w" in shared.remedy


@pytest.mark.parametrize(("free_bytes", "level"), [(10**8, Level.PROBLEM), (10**9, Level.NOTE), (10**10, Level.OK)])
def test_space_is_measured_even_where_the_folder_is_not_there_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_bytes: int, level: Level
) -> None:
    asked: list[Path] = []

    def disk_usage(path: Path) -> SimpleNamespace:
        asked.append(path)
        return SimpleNamespace(free=free_bytes)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    assert diagnosis.examine_space("space", tmp_path / "a" / "b", remedy="free some").level is level
    assert asked == [tmp_path]
