"""A folder in the cache is made once, by one maker, and never seen half made."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from semel.engine import private
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


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_cache_that_others_can_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("SEMEL_CACHE", str(cache))
    target = keep_folder(cache / "jars" / "target", write_one)
    for place in (cache, cache / "jars", target):
        place.chmod(mode)
        with pytest.raises(EnvironmentFailure, match=rf"{place} can be written by others .*{mode:o}") as refused:
            keep_folder(target, refuse)
        assert "SEMEL_CACHE" in refused.value.next_command
        place.chmod(0o755)  # to be read is no harm
        assert keep_folder(target, refuse) == target


def test_a_cache_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_folder(tmp_path / "cache" / "target", write_one)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 4711)  # as if this folder were another's
    monkeypatch.setattr(private, "ROOT", -1)
    with pytest.raises(EnvironmentFailure, match="belongs to user"):
        keep_folder(tmp_path / "cache" / "target", refuse)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for place in ("linked", "dangling"):
        with pytest.raises(EnvironmentFailure, match=f"{place} is a link"):
            keep_folder(tmp_path / place / "target", refuse)
        with pytest.raises(EnvironmentFailure, match=f"{place} is a link"):
            keep_folder(tmp_path / place, refuse)
    (tmp_path / "target.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(EnvironmentFailure, match=r"target\.lock is a link"):
        keep_folder(tmp_path / "target", refuse)
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_folder_that_anybody_may_replace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(EnvironmentFailure, match="which everybody can write to") as refused:
        keep_folder(tmp_path / "shared" / "cache" / "target", refuse)
    assert f"chmod o-w {tmp_path / 'shared'};" in refused.value.next_command
    (tmp_path / "shared").chmod(0o1777)  # as /tmp: nobody can rename what is another's
    keep_folder(tmp_path / "shared" / "cache" / "target", write_one)


def test_new_folders_are_for_this_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        target = keep_folder(tmp_path / "a" / "b" / "target", write_one)
    finally:
        os.umask(before)
    assert [oct(place.stat().st_mode & 0o777) for place in (target, *target.parents[:2])] == ["0o700"] * 3
    assert keep_folder(target, refuse) == target
