"""Run folders: what they hold, and which are removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from semel.drill import run_folder
from semel.drill.run_folder import AGE_MS_MAX, RunFolder, remove_old, scratch_folder

NOW_MS = 1_800_000_000_000


def made(runs: Path, age_ms: int, size: int = 10) -> Path:
    folder = runs / f"run-{NOW_MS - age_ms:013d}-1"
    folder.mkdir()
    (folder / "journal.jsonl").write_bytes(b"x" * size)
    return folder


def test_lines_are_kept_as_they_came(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs")
    folder.plan({"a": 1})
    folder.plan_lines(['{"b": 2}', '{"c": 3}'])
    folder.note({"verdict": "HELD"})
    assert (folder.path / "schedule.jsonl").read_text() == '{"a": 1}\n{"b": 2}\n{"c": 3}\n'
    assert (folder.path / "journal.jsonl").read_text() == '{"verdict": "HELD"}\n'


def test_old_ones_are_removed_and_nothing_else(tmp_path: Path) -> None:
    young, old = made(tmp_path, AGE_MS_MAX - 1), made(tmp_path, AGE_MS_MAX + 1)
    other = tmp_path / "run-of-somebody"
    other.mkdir()
    remove_old(tmp_path, NOW_MS)
    assert [folder.exists() for folder in (young, old, other)] == [True, False, True]


def test_the_oldest_go_when_there_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "BYTES_MAX", 25)
    folders = [made(tmp_path, age_ms) for age_ms in (1, 2, 3)]
    remove_old(tmp_path, NOW_MS)
    assert [folder.exists() for folder in folders] == [True, True, False]


def test_the_cache_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMEL_CACHE", str(tmp_path))
    assert run_folder.runs_folder() == tmp_path / "drills"


def test_an_interrupted_removal_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    remove, calls = shutil.rmtree, 0

    def interrupted(folder: Path, *, ignore_errors: bool) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        remove(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), scratch_folder() as folder:
        (folder / "log").touch()
    assert not folder.exists()
