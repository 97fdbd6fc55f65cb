"""The files that the tidy tests look at."""

import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "semel"
# Written by tools/generate_messages.py: its shape is the schema's, not ours.
GENERATED = PACKAGE / "protocol" / "messages"


@cache
def project_files() -> tuple[Path, ...]:
    """Every file of the project: those under version control and those that are about to be."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = {ROOT / name for name in listing.split("\0") if name}
    return tuple(sorted(path for path in paths if path.is_file()))


@cache
def text_of(path: Path) -> str:
    """A file's text; bytes that are no UTF-8 stay searchable."""
    return path.read_bytes().decode("utf-8", errors="replace")


def source_files() -> list[Path]:
    """Every hand-written module of the package."""
    return sorted(path for path in PACKAGE.rglob("*.py") if GENERATED not in path.parents)


def shown(path: Path) -> str:
    """A path as people write it."""
    return path.relative_to(ROOT).as_posix()


def assert_silent(complaints: Iterable[str]) -> None:
    """Fail with every complaint on a line of its own."""
    lines = list(complaints)
    assert not lines, "\n" + "\n".join(lines)
