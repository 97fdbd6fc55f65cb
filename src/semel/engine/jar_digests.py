"""The SHA-256 of every jar that semel starts, pinned in `jar_digests.txt` beside this module.

Keeps: a jar runs only if it is the one that this version of semel was made with: a change in the cache folder,
       the mirror or the repository is noticed, and so is a jar too many or too few.
Why:   Ivy compares checksums that come from the same place as the jar, so who can change one can change both.

The file is what `sha256sum */*.jar` prints in the cache's folder `jars`, behind a line that says so. `make pin-jars`
writes it again.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib import resources
from pathlib import Path

from semel.errors import EnvironmentFailure

FILE = "jar_digests.txt"


@cache
def pinned() -> dict[str, dict[str, str]]:
    """Digests by the name of the jar, by the name of the folder."""
    found: dict[str, dict[str, str]] = {}
    for line in resources.files("semel.engine").joinpath(FILE).read_text(encoding="ascii").splitlines():
        if line.startswith("#"):
            continue
        digest, _, place = line.partition("  ")
        folder, _, jar = place.partition("/")
        found.setdefault(folder, {})[jar] = digest
    return found


def verify(folder: Path, *, name: str, origin: str) -> list[Path]:
    """Return the jars of the folder that is to be called `name`, sorted; EnvironmentFailure unless they are pinned."""
    wanted = pinned().get(name)
    if wanted is None:
        raise EnvironmentFailure(
            f"nobody has pinned the jars of {name}",
            because="a jar is only started when its SHA-256 is known",
            next_command=f"make pin-jars, which adds it to src/semel/engine/{FILE}; look at what it changes",
        )
    jars = sorted(folder.glob("*.jar"))
    found = {jar.name: _digest_of(jar) for jar in jars}
    for jar in sorted(found.keys() | wanted.keys()):
        if found.get(jar) != wanted.get(jar):
            raise EnvironmentFailure(
                f"{folder / jar} {_difference(found.get(jar), wanted.get(jar))}",
                because=f"it came from {origin}, or was changed there afterwards; it was not started",
                next_command=f"find out who changed it; then rm -r {folder}, and it is fetched again",
            )
    return jars


def _difference(found: str | None, wanted: str | None) -> str:
    if found is None:
        return "is missing"
    if wanted is None:
        return f"does not belong there (SHA-256 {found})"
    return f"has another SHA-256 than this version of semel was made with: {found}, not {wanted}"


def _digest_of(jar: Path) -> str:
    """Read it once per process as long as nothing about it changes."""
    seen = jar.stat()
    # Any change makes another key of the cache, so the file is read again. Nobody can set the change time back.
    return _read_digest(jar, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


@cache
def _read_digest(jar: Path, *_: int) -> str:
    # No link is followed: it could lead to another file the next time it is opened.
    with os.fdopen(os.open(jar, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
