"""Where kernels are kept: compiled once, also for read-only installations, and only where others cannot write."""

import os
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from semel.protocol.kernels import cache, jit

SOURCES = Path(__file__).resolve().parents[3] / "src"
# Prints the cache folder, what had to be compiled, what was loaded, a kernel's answer, and whether Arrow came along.
PROGRAM = """
import sys
import numpy as np
from semel.protocol.kernels import preload
preload()
from semel.protocol.kernels import check, decode, encode, headers, partition
from semel.protocol.kernels.cache import cache_folder
kernels = [check.scan_batches, decode.decode_spans, headers.fill_headers, encode.encode_batches, encode.plan_batches,
           partition.partition_rows, partition.sort_rows]
misses = sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels)
hits = sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels)
answer = check.scan_batches(0, 0, np.empty((1, 7), dtype=np.int64))
print(cache_folder(), misses, hits, answer, "pyarrow" in sys.modules, sep="|")
"""


def run(home: Path, sources: Path) -> list[str]:
    clean = {name: value for name, value in os.environ.items() if name != "SEMEL_CACHE"}
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env={**clean, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip().split("|")


@pytest.fixture
def read_only(tmp_path: Path) -> Path:
    sources = tmp_path / "site-packages"
    shutil.copytree(SOURCES / "semel", sources / "semel", ignore=shutil.ignore_patterns("__pycache__"))
    for path in sorted(sources.rglob("*"), reverse=True):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    return sources


@pytest.mark.full
def test_read_only_installation_used_by_two_at_once(tmp_path: Path, read_only: Path) -> None:
    """All work at once, a later process loads everything, and nothing is written beside the sources."""
    home, before = tmp_path / "home", sorted(read_only.rglob("*"))
    with ThreadPoolExecutor(2) as pool:
        first = list(pool.map(run, [home] * 2, [read_only] * 2))
    assert {answer[3] for answer in first} == {"(0, 0, 0)"}
    folder, misses, hits, answer, has_arrow = run(home, read_only)
    assert Path(folder).is_relative_to(home / ".cache" / "semel")
    assert (misses, hits, answer) == ("0", "7", "(0, 0, 0)")
    assert has_arrow == "False", "workers are forked after preloading, and Arrow brings a thread"
    assert sorted(read_only.rglob("*")) == before


def chosen(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Path | None:
    for name in ("SEMEL_CACHE", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return cache.cache_folder.__wrapped__()


def test_order_of_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home, named = (str(tmp_path / name) for name in ("home", "named"))
    places = [
        chosen(monkeypatch, HOME=home, SEMEL_CACHE=named),
        chosen(monkeypatch, HOME=home, SEMEL_CACHE="~/own"),
        chosen(monkeypatch, HOME=home),
        chosen(monkeypatch),
    ]
    parents = [place.parent.relative_to(tmp_path).as_posix() for place in places if place]
    assert parents == ["named", "home/own", "home/.cache/semel", f"semel-{os.getuid()}"]
    assert len({place.name for place in places if place}) == 1


def test_home_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in containers with a user that has no home: the temporary folder takes over."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("in the way")
    place = chosen(monkeypatch, HOME=str(tmp_path / "file"))
    assert place is not None
    assert place.is_relative_to(tmp_path / f"semel-{os.getuid()}")


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_folder_that_others_can_write_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
) -> None:
    """Its files are pickles: whoever can write them runs code here."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    assert chosen(monkeypatch, SEMEL_CACHE=str(shared)) is None


def test_link_in_place_of_the_folder_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert chosen(monkeypatch, SEMEL_CACHE=str(tmp_path / "link")) is None


def test_kernels_work_without_any_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cache_folder", lambda: None)

    def double(value: int) -> int:
        return 2 * value

    assert jit.kernel(jit.types.int64(jit.types.int64))(double)(21) == 42


def test_decorating_leaves_the_setting_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit.config, "CACHE_DIR", "theirs")

    def double(value: int) -> int:
        return 2 * value

    jit.kernel(jit.types.int64(jit.types.int64))(double)
    assert jit.config.CACHE_DIR == "theirs"
