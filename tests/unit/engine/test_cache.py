"""A folder in the cache is made once, by one maker, and never seen half made."""

import fcntl
import threading
from pathlib import Path

import pytest

from semel.engine.cache import cache_folder, keep_folder
from semel.errors import EnvironmentFailure

MAKERS = 8


def write_one(folder: Path) -> None:
    (folder / "file").write_text("made")


def refuse(folder: Path) -> None:
    raise AssertionError(f"{folder} is made a second time")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_cache_is_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMEL_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("SEMEL_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "semel"


def test_made_once(tmp_path: Path) -> None:
    target = tmp_path / "below" / "target"
    assert keep_folder(target, write_one) == target
    assert keep_folder(target, refuse) == target
    assert (target / "file").read_text() == "made"


def test_what_is_made_needs_no_lock(tmp_path: Path) -> None:
    keep_folder(tmp_path / "target", write_one)
    with (tmp_path / "target.lock").open("w") as lock:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
        assert names(keep_folder(tmp_path / "target", refuse, wait_ms_max=0)) == ["file"]


def test_a_failed_maker_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write_one(folder)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        keep_folder(tmp_path / "target", fail)
    assert names(tmp_path) == ["target.lock"]
    assert names(keep_folder(tmp_path / "target", write_one)) == ["file"]


def test_what_a_killed_maker_left_is_thrown_away(tmp_path: Path) -> None:
    (tmp_path / "target.unfinished").mkdir()
    (tmp_path / "target.unfinished" / "half").write_text("")
    assert names(keep_folder(tmp_path / "target", write_one)) == ["file"]
    assert names(tmp_path) == ["target", "target.lock"]


def test_of_many_makers_at_once_one_makes(tmp_path: Path) -> None:
    together = threading.Barrier(MAKERS)
    made: list[str] = []
    found: list[list[str]] = []

    def fill(folder: Path) -> None:
        made.append(threading.current_thread().name)
        write_one(folder)

    def call() -> None:
        together.wait(timeout=30)
        found.append(names(keep_folder(tmp_path / "target", fill)))

    threads = [threading.Thread(target=call) for _ in range(MAKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert found == [["file"]] * MAKERS
    assert len(made) == 1


def test_waiting_for_another_maker_has_a_limit(tmp_path: Path) -> None:
    with (tmp_path / "target.lock").open("w") as lock:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
        with pytest.raises(EnvironmentFailure, match=r"another process has held .*target\.lock"):
            keep_folder(tmp_path / "target", refuse, wait_ms_max=0)


def test_a_cache_that_cannot_be_made_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match="SEMEL_CACHE"):
        keep_folder(tmp_path / "file" / "below" / "target", refuse)
