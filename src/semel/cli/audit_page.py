"""`semel audit --html FILE`: the page on disk, with the command that makes it again.

Keeps: a file that cannot be written is refused before hours of work, not after them; one that is there already is
       replaced whole or not at all; no password is in the command that is shown.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import semel
from semel.cli.output import narrate
from semel.errors import ConfigError, EnvironmentFailure

if TYPE_CHECKING:
    from semel.audit.report import Report

# Rather too much than too little: what is hidden can be asked for, what was shown cannot be taken back.
_SECRET = re.compile(r"passw|secret|token|credential|\bkey\b|access\.?key|jaas|signature", re.IGNORECASE)
# As they are written on a command line, with the name of what they set.
FLAGS = {
    "--config": "config",
    "--key": "key",
    "--stamp": "stamp",
    "--content": "content",
    "--map-left": "map_left",
    "--map-right": "map_right",
    "--expect": "expect",
    "--where": "where",
    "--order": "order",
    "--unit": "unit",
    "--pipeline": "pipeline",
    "--guarantee": "guarantee",
    "--html": "html",
    "--time-left": "time_left",
    "--time-right": "time_right",
    "--examples": "examples",
    "--master": "master",
    "--conf": "conf",
    "--command-config": "command_config",
    "--jdbc-config": "jdbc_config",
}


def check_target(path: str) -> None:
    """Refuse a file that cannot be written."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise ConfigError(f"--html {path} is there already, and is no file", you_want="--html report.html")
    if not target.parent.is_dir():
        raise ConfigError(f"--html {path}: there is no folder {target.parent}", you_want="a folder that is there")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise EnvironmentFailure(f"--html {path}: nothing can be written into {target.parent}")


def write_page(path: str, report: Report, options: argparse.Namespace) -> None:
    """Write the page of this report."""
    put_page(path, report.as_html(command=command_of(options), made=made_now()), done="the audit")


def made_now() -> str:
    """By what a page is made, and when."""
    return f"semel {semel.__version__}, {datetime.now(tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def put_page(path: str, text: str, *, done: str) -> None:
    """Write beside the target, then take its place; `done` is what stands whatever becomes of the page."""
    target = Path(path).resolve()
    # In the same folder: a file takes another's place in one step only within a file system.
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise EnvironmentFailure(
            f"the page {path} could not be written: {error.strerror or error}",
            because=f"{done} itself is done, and its report is printed above",
        ) from error
    narrate(f"page: {path}")


def command_of(options: argparse.Namespace) -> str:
    """The command that repeats the audit, without what an address or a setting may hide."""
    return shlex.join(["semel", "audit", *_words(options)])


def _words(options: argparse.Namespace) -> Iterator[str]:
    for side in (options.left, *options.rights):
        if side:
            yield without_login(side)
    for flag, name in FLAGS.items():
        value = getattr(options, name)
        if value is True:
            yield flag
        elif isinstance(value, list):
            for one in value:
                yield from (flag, without_secret(one) if name == "conf" else one)
        elif value not in (None, "", False):
            yield from (flag, str(value))


def without_login(side: str) -> str:
    """Of a JDBC address, what follows the question mark may have a password."""
    if not side.lower().startswith("jdbc:") or "?" not in side:
        return side
    url, _, table = side.partition("#")
    return f"{url.partition('?')[0]}?…#{table}"


def without_secret(pair: str) -> str:
    """A setting `name=value`, without the value if that may be a password."""
    name, _, value = pair.partition("=")
    return f"{name}=…" if _SECRET.search(name) or _SECRET.search(value) else pair
