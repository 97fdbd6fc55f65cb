"""Reads settings and options from files: Java properties, JSON, or a Python dict as it stands in code.

Two names are not settings and say what the others are for: `semel.library=librdkafka` and `semel.role=producer`.
Keeps: no value of a file is in an error about it; it may be a password.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

from semel.check.facts import ClientFacts, QueryFacts
from semel.clients.setting_library import Library
from semel.clients.setting_names import Role, read_settings
from semel.errors import ConfigError

LIBRARY, ROLE = "semel.library", "semel.role"
FILE_BYTES_MAX = 1 << 20


def read_client(path: str, library: str | None = None) -> ClientFacts:
    """Read the settings of one client; `library` holds unless the file itself names one."""
    written = read_file(path)
    named = str(written.pop(LIBRARY, None) or library or "")
    role = written.pop(ROLE, None)
    return ClientFacts(
        name=path,
        settings=read_settings(
            written,
            library=Library.parse(named) if named else None,
            role=_role(str(role), path) if role is not None else None,
        ),
    )


def read_query(path: str) -> QueryFacts:
    """Read the options of one Spark query."""
    written = read_file(path)
    return QueryFacts(name=path, options={name.lower(): _text(value) for name, value in written.items()})


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def _role(text: str, path: str) -> Role:
    try:
        return Role(text.strip().lower())
    except ValueError:
        raise ConfigError(f"{path}: {ROLE} is {text!r}", you_want=" | ".join(Role)) from None


def read_file(path: str) -> dict[str, object]:
    """Read names and values, in whichever of the three forms they are written."""
    text = _contents(path)
    return _as_dict(text, path) if text.lstrip().startswith("{") else dict(parse_properties(text, path))


def _contents(path: str) -> str:
    file = Path(path)
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise ConfigError(f"{path} is larger than a file of settings can be")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise ConfigError(f"{path} cannot be read: {reason}") from None


def _as_dict(text: str, path: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        try:
            found = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise ConfigError(
                f"{path} begins as a dict and is neither JSON nor a Python dict of plain values",
                you_want='{"bootstrap.servers": "localhost:9092", "acks": "all"}',
            ) from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ConfigError(f"{path} is not a dict of names and values")
    return dict(found)


def parse_properties(text: str, path: str) -> dict[str, str]:
    """Read Java properties: comments, `=` or `:`, lines that go on after a backslash."""
    found: dict[str, str] = {}
    for number, line in _whole_lines(text):
        places = [place for mark in "=:" if (place := line.find(mark)) >= 0]
        if not places:
            raise ConfigError(f"{path}:{number}: there is no = in this line", you_want="name=value")
        found[line[: min(places)].strip()] = line[min(places) + 1 :].strip()
    return found


def _whole_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    open_line = ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not open_line and (not line or line[0] in "#!"):
            continue
        if line.endswith("\\"):
            open_line += line[:-1]
            continue
        lines.append((number, open_line + line))
        open_line = ""
    return [*lines, (0, open_line)] if open_line else lines
