"""Reads settings and options from files: Java properties, JSON, a Python dict alone, or a Python program.

Two names are not settings and say what the others are for: `semel.library=librdkafka` and `semel.role=producer`.
Keeps: no value of a file is in an error about it; it may be a password.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from semel.check.facts import ClientFacts, FileLine, QueryFacts
from semel.check.gathering.python_file import SUFFIXES, parse_python, read_python
from semel.check.gathering.written import Written
from semel.clients.setting_defaults import Library
from semel.clients.setting_names import SPARK_PREFIX, Computed, Role, canonical_name, guess_library, read_settings
from semel.clients.setting_vocabulary import knows_any, nearest
from semel.errors import ConfigError

LIBRARY, ROLE = "semel.library", "semel.role"
STDIN = "-"
# A path may be that of a device or of a topic's data.
FILE_BYTES_MAX = 1 << 20
# A file with one of these endings is what it says, however much it looks like a program.
PLAIN_SUFFIXES = (".properties", ".json", ".conf", ".cfg", ".ini", ".env")
QUERY_NAMES = frozenset(
    {
        "assign",
        "checkpoint",
        "checkpointlocation",
        "failondataloss",
        "kafka.bootstrap.servers",
        "kafka.isolation.level",
        "maxoffsetspertrigger",
        "pipeline",
        "sink.format",
        "source.format",
        "startingoffsets",
        "subscribe",
        "subscribepattern",
    }
)


def read_clients(path: str, library: str | None = None) -> list[ClientFacts]:
    """Read the settings of every client in a file; `library` holds unless the settings themselves name one."""
    return [_client(path, written, library) for written in _read(path, _are_settings)]


def read_queries(path: str) -> list[QueryFacts]:
    """Read the options of every Spark query in a file."""
    found = [written for written in _read(path, _are_options) if written.role is None]
    if not found:
        raise ConfigError(f"{path} has no options of a query", you_want='options = {"subscribe": "orders", …}')
    return [_query(path, written) for written in found]


def read_file(path: str) -> dict[str, object]:
    """Read names and values of a file that is not a program, as one connects with."""
    text = contents(path)
    written = _as_dict(text, path) if text.lstrip().startswith("{") else parse_properties(text, path)
    if written.elsewhere or any(isinstance(value, Computed) for value in written.values.values()):
        raise ConfigError(f"{path} has values that only a program knows", you_want="name=value, or JSON")
    return dict(written.values)


def _client(path: str, written: Written, library: str | None) -> ClientFacts:
    values = dict(written.values)
    own, role = values.pop(LIBRARY, None), values.pop(ROLE, None)
    if isinstance(own, str) and own:
        known, because = Library.parse(own), f"{LIBRARY} says so"
    elif library:
        known, because = Library.parse(library), "--library says so"
    elif written.library:
        known, because = Library.parse(written.library), written.because
    else:
        # Nobody says it, so the spelling decides: many names belong to one library alone.
        known = guess_library(values)
        because = "assumed: no name belongs to another library" if known.name == "java" else "told by the names"
    settings = read_settings(
        values,
        library=known,
        role=written.role if role is None else _role(str(role), path),
        elsewhere=written.elsewhere,
    )
    return ClientFacts(
        name=_subject(path, written),
        settings=settings,
        place=_place(path, written),
        lines={canonical_name(name, known): line for name, line in written.lines.items()},
        because=because,
    )


def _query(path: str, written: Written) -> QueryFacts:
    readable = {name: value for name, value in written.values.items() if not isinstance(value, Computed)}
    return QueryFacts(
        name=_subject(path, written),
        options={name.lower(): _text(value) for name, value in readable.items()},
        unread={name.lower(): value.why for name, value in written.values.items() if isinstance(value, Computed)},
        elsewhere=written.elsewhere,
        place=_place(path, written),
        lines={name.lower(): line for name, line in written.lines.items()},
    )


def _subject(path: str, written: Written) -> str:
    return f"{_shown(path)}:{written.name}" if written.name else _shown(path)


def _shown(path: str) -> str:
    return "stdin" if path == STDIN else str(Path(path))  # ./a and a are one name in a baseline


def _place(path: str, written: Written) -> FileLine | None:
    return None if path == STDIN else FileLine(file=path, line=written.line)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def _role(text: str, path: str) -> Role:
    try:
        return Role(text.strip().lower())
    except ValueError:
        raise ConfigError(f"{path}: {ROLE} is {text!r}", you_want=" | ".join(Role)) from None


def _are_settings(names: Iterable[str]) -> bool:
    """Whether a dict in a program holds settings of a client. A single word such as `debug` can mean anything."""
    # Near misses count too: a misspelt name is what rule S047 is about, and must not make the dict invisible.
    librdkafka = Library.parse("librdkafka")
    every = [name.removeprefix(SPARK_PREFIX) for name in names]
    return "acks" in every or any(
        knows_any(name) or ("." in name and bool(nearest(name, librdkafka)))
        for name in every
        if re.search("[._]", name)
    )


def _are_options(names: Iterable[str]) -> bool:
    return any(name.lower() in QUERY_NAMES for name in names)


def _read(path: str, is_settings: Callable[[Iterable[str]], bool]) -> list[Written]:
    text = contents(path)
    if not text.strip():
        raise ConfigError(f"{_shown(path)} is empty", you_want=f"settings, or {LIBRARY}=java for its defaults")
    if Path(path).suffix in SUFFIXES or _is_program(text, path, is_settings):
        found = read_python(parse_python(text, path), path, is_settings)
        if not found:
            raise ConfigError(
                f"{_shown(path)} is a program in which no settings can be seen",
                you_want='conf = {"bootstrap.servers": "…", "acks": "all"}, or Producer(…) with such a dict',
            )
        return found
    written = _as_dict(text, path) if text.lstrip().startswith("{") else parse_properties(text, path)
    if not written.values and not written.elsewhere:
        raise ConfigError(f"{_shown(path)} has no settings", you_want=f"settings, or {LIBRARY}=java for its defaults")
    return [written]


def _is_program(text: str, path: str, is_settings: Callable[[Iterable[str]], bool]) -> bool:
    """Whether a file without an ending that tells is Python: it imports something, or names a dict of settings."""
    if Path(path).suffix in PLAIN_SUFFIXES or text.lstrip().startswith("{"):
        return False
    try:
        tree = parse_python(text, path)
    except ConfigError:
        return False
    # `name = value` lines of properties often parse as Python; a program imports something or makes a dict.
    imports = any(isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body)
    return imports or bool(read_python(tree, path, is_settings))


def contents(path: str) -> str:
    """The text of a file, or of stdin for `-`; at most a megabyte, whatever kind of file it is."""
    try:
        if path == STDIN:
            raw = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with Path(path).open("rb") as file:
                # One byte more than allowed says that there is more, also for a pipe, which has no size to ask for.
                raw = file.read(FILE_BYTES_MAX + 1)
        if len(raw) > FILE_BYTES_MAX:
            raise ConfigError(f"{_shown(path)} is larger than a file of settings can be")
        # Editors on Windows put a mark before the text, which would become part of the first name.
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(f"{_shown(path)}:{line} cannot be read: not UTF-8", you_want="the file in UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{_shown(path)} cannot be read: {error.strerror or type(error).__name__}") from None


def _as_dict(text: str, path: str) -> Written:
    library = because = ""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        # Only code has dicts like this one, and in code it goes to a Python client.
        library, because = "librdkafka", "assumed: a Python dict, and nothing imported"
        try:
            # Literals alone: nothing of the file is run.
            found = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return _computed_dict(text, path)
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ConfigError(f"{path} is not a dict of names and values")
    # Its names say more than that it is a dict.
    if library and guess_library(found).name != "java":
        library, because = "", ""
    return Written(values=dict(found), lines=_lines_of(found, text), library=library, because=because)


def _computed_dict(text: str, path: str) -> Written:
    """A Python dict some of whose values only a program knows; read as if the program gave it a name."""
    with suppress(ConfigError):
        found = read_python(parse_python(f"settings = {text.lstrip()}", path), path, bool)
        if len(found) == 1:
            return replace(found[0], name="")
    raise ConfigError(
        f"{path} begins as a dict and is neither JSON nor a Python dict with names in quotes",
        you_want='{"bootstrap.servers": "localhost:9092", "acks": "all"}',
    )


def _lines_of(names: Iterable[str], text: str) -> dict[str, int]:
    """The first line that has each name in quotes."""
    lines = {}
    for name in names:
        match = re.search(rf"""["']{re.escape(name)}["']\s*:""", text)
        if match:
            lines[name] = text.count("\n", 0, match.start()) + 1
    return lines


def parse_properties(text: str, path: str) -> Written:
    """Read Java properties: comments, `=` or `:`, lines that go on after a backslash."""
    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    for number, line in _whole_lines(text):
        # Whichever comes first ends the name, as in Java: a value may have the other one in it, as addresses do.
        places = [place for mark in "=:" if (place := line.find(mark)) >= 0]
        if not places:
            raise ConfigError(f"{path}:{number}: there is no = in this line", you_want="name=value")
        name = line[: min(places)].strip()
        values[name], lines[name] = line[min(places) + 1 :].strip(), number
    return Written(values=values, lines=lines)


def _whole_lines(text: str) -> list[tuple[int, str]]:
    """Lines with the number that each begins at."""
    lines: list[tuple[int, str]] = []
    open_line, begin = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not open_line:
            begin = number
            # Both begin a comment in Java's properties.
            if not line or line[0] in "#!":
                continue
        if line.endswith("\\"):
            open_line += line[:-1]
            continue
        lines.append((begin, open_line + line))
        open_line = ""
    return [*lines, (begin, open_line)] if open_line else lines
