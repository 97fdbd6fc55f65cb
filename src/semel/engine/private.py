"""Folders and files that nobody else on this machine can change: what semel runs or believes lies in such places only.

Keeps: nobody but this user (and root, who can do everything anyway) plants a jar, a `java` or a run file: a
       folder that others can write to, that belongs to another or that is a link is refused, never used.
Why:   a link is refused although it may be harmless: who made it is not to be seen from what it leads to.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from semel.errors import EnvironmentFailure

ROOT = 0
FOLDER_MODE = 0o700
FILE_MODE = 0o600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Weakness:
    """Why a folder is not private, in words that follow its name, and what to do about it."""

    found: str
    remedy: str


_ELSEWHERE = "set SEMEL_CACHE to a folder of your own"


def weakness_of(folder: Path) -> Weakness | None:
    """What lets others change this folder; None when nothing does, or it is not there yet."""
    try:
        # `lstat`: what a link leads to does not say who can change the link.
        found = folder.lstat()
    except FileNotFoundError:
        return _weakness_above(folder)
    if stat.S_ISLNK(found.st_mode):
        return Weakness(f"is a link to {folder.readlink()}", "set SEMEL_CACHE to a folder, not to a link to one")
    if not stat.S_ISDIR(found.st_mode):
        return Weakness("is not a folder", _ELSEWHERE)
    if found.st_uid not in (ROOT, os.geteuid()):
        return Weakness(f"belongs to user {found.st_uid}, not to you (user {os.geteuid()})", _ELSEWHERE)
    if found.st_mode & _OTHERS_WRITE:
        return Weakness(
            f"can be written by others (mode {stat.S_IMODE(found.st_mode):04o})",
            f"look at what is in it, then chmod go-w {folder}; or {_ELSEWHERE}",
        )
    return _weakness_above(folder)


def _weakness_above(folder: Path) -> Weakness | None:
    """Who may rename a folder on the way can put another in its place; the sticky bit, as on /tmp, forbids that."""
    for above in folder.absolute().parents:
        try:
            mode = above.stat().st_mode
        except OSError:
            continue
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return Weakness(
                f"is below {above}, which everybody can write to (mode {stat.S_IMODE(mode):04o})",
                f"chmod o-w {above}; or {_ELSEWHERE}, outside of it",
            )
    return None


def private_folder(folder: Path) -> Path:
    """Return the folder, made for this user alone if it was not there; EnvironmentFailure when it is not private."""
    try:
        # Each for this user alone: `parents=True` would give those above the mode that the umask leaves.
        for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
            missing.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except FileExistsError:
        pass  # a link to nothing, or a file: said below
    except OSError as error:
        raise EnvironmentFailure(
            f"the folder {folder} cannot be made: {error.strerror}",
            next_command="set SEMEL_CACHE to a folder that can be written",
        ) from error
    check_private(folder)
    return folder


def check_private(folder: Path) -> None:
    """Raise EnvironmentFailure when the folder is not private."""
    weakness = weakness_of(folder)
    if weakness is not None:
        raise EnvironmentFailure(
            f"the folder {folder} {weakness.found}",
            because="semel runs programs and believes files from there; who can write there could plant others",
            next_command=weakness.remedy,
        )


def open_private(path: Path, flags: int) -> int:
    """Open a file of a private folder, following no link; a new one is readable for this user alone."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        if path.is_symlink():
            raise EnvironmentFailure(
                f"{path} is a link to {path.readlink()}",
                because="semel keeps plain files there, and follows no link to write into another file",
                next_command=f"rm {path}",
            ) from None
        if isinstance(error, FileNotFoundError) and not flags & os.O_CREAT:
            raise  # the caller knows what it means that there is none
        raise EnvironmentFailure(f"{path} cannot be opened: {error.strerror}") from error
    return descriptor
