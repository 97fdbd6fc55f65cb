"""How the two sides are written on a command line.

kafka://host:9092/orders                              a topic; several brokers with commas
kafka://host:9092/orders?isolation=read_uncommitted   also what was aborted or is not decided
kafka://host:9092/orders?from=2026-11-01T00:00Z&to=2026-11-02T00:00Z     a window by time
kafka://host:9092/orders?from=0:100,1:250&to=0:200    a window by offsets: partition:offset; an end is exclusive
parquet:/data/orders    json:/data/orders.jsonl    delta:/data/orders    files and folders
jdbc:postgresql://host/db#schema.table                a table, by any JDBC driver that Spark has
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from urllib.parse import parse_qsl, unquote, urlsplit

from semel.errors import ConfigError
from semel.wire.topology import Isolation

EXAMPLE = "kafka://localhost:9092/orders, parquet:/data/orders, json:/data/orders.jsonl or delta:/data/orders"
FORMATS = ("parquet", "json", "delta", "orc", "avro", "csv")
_SUFFIXES = {".parquet": "parquet", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".orc": "orc"}
_OPTIONS = ("isolation", "from", "to")
# A parameter whose name has one of the words that the drivers of databases have for a password.
_PASSWORD = re.compile(r"(passw|pwd|secret|token)[^?&;,()=]*=", re.IGNORECASE)
# All that may stand before an @ without being a login: Oracle writes `jdbc:oracle:thin:@//host`.
_NO_LOGIN = re.compile(r"jdbc:([\w.+-]+:)+/*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One end of a window: a time for all partitions, or offsets of some."""

    time_ms: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of a cluster, or a window of it."""

    text: str
    bootstrap: str
    name: str
    isolation: Isolation = Isolation.READ_COMMITTED
    begin: Edge | None = None
    end: Edge | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What one of Spark's file formats reads."""

    text: str
    form: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that JDBC reaches."""

    text: str
    url: str
    table: str


def parse_place(text: str) -> Topic | Files | Table:
    """Read one side; ConfigError that shows how it is written."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "kafka":
        return _topic(text)
    if colon and scheme.lower() == "jdbc":
        url, _, table = text.partition("#")
        if _has_login(url):
            # Not `_wrong`: the text has a password, perhaps.
            raise ConfigError(
                "a login does not belong into an address",
                because="everybody on this machine can read the arguments of a command",
                you_want="SEMEL_JDBC_USER and SEMEL_JDBC_PASSWORD in the environment, or --jdbc-config FILE",
            )
        if not table or not rest.partition(":")[2]:
            raise _wrong(text.partition("?")[0], "jdbc:postgresql://host/database#schema.table")
        return Table(text=text, url=url, table=table)
    if colon and scheme.lower() in FORMATS:
        if not rest:
            raise _wrong(text, f"{scheme}:/data/orders")
        return Files(text=text, form=scheme.lower(), path=rest)
    form = _SUFFIXES.get(PurePosixPath(text).suffix.lower())
    if form is None:
        raise _wrong(text, EXAMPLE)
    return Files(text=text, form=form, path=text)


def _topic(text: str) -> Topic:
    parts = urlsplit(text)
    name = parts.path.strip("/")
    if not parts.netloc or not name or "/" in name or parts.fragment:
        raise _wrong(text, "kafka://host:9092/topic")
    if "@" in parts.netloc:
        # Not `_wrong`: the text has a password, perhaps.
        raise ConfigError("a login does not belong into an address", you_want="--command-config FILE")
    given = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(given)
    if len(options) < len(given) or not options.keys() <= {*_OPTIONS}:
        raise _wrong(text, f"each of {', '.join(_OPTIONS)} at most once")
    # What was aborted never came out, so it cannot be missing.
    isolation = options.get("isolation", Isolation.READ_COMMITTED)
    if isolation not in {*Isolation}:
        raise _wrong(text, " or ".join(f"isolation={one}" for one in Isolation))
    begin = _edge(text, options["from"]) if "from" in options else None
    end = _edge(text, options["to"]) if "to" in options else None
    if begin and end and begin.time_ms is not None and end.time_ms is not None and begin.time_ms >= end.time_ms:
        raise _wrong(text, "a window that begins before it ends")
    return Topic(text=text, bootstrap=parts.netloc, name=name, isolation=Isolation(isolation), begin=begin, end=end)


def _edge(text: str, value: str) -> Edge:
    """A time in ISO 8601, UTC unless it says otherwise, or partition:offset with commas between."""
    # A plus sign of a time zone is a space in a query.
    try:
        time = datetime.fromisoformat(value.replace(" ", "+") if value.count(" ") == 1 and "T" in value else value)
    except ValueError:
        return Edge(offsets=_offsets(text, value))
    # Not the machine's own zone: the same command means the same everywhere.
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return Edge(time_ms=int(time.timestamp() * 1000))


def _offsets(text: str, value: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for part in value.split(","):
        number, colon, offset = part.strip().partition(":")
        if not (colon and number.isascii() and number.isdigit() and offset.isascii() and offset.isdigit()):
            raise _wrong(text, "from=2026-11-01T00:00Z, or from=0:100,1:250 (partition:offset)")
        if int(number) in found:
            raise _wrong(text, f"partition {number} once")
        found[int(number)] = int(offset)
    return found


def _has_login(url: str) -> bool:
    """Whether the address of a database names a user or a password. When in doubt it does."""
    before, at, behind = url.partition("@")
    is_user = bool(at) and (_NO_LOGIN.fullmatch(before) is None or "@" in behind)
    # Drivers take `pass%77ord` for what it stands for.
    return is_user or any(_PASSWORD.search(one) for one in (url, unquote(url)))


def _wrong(text: str, want: str) -> ConfigError:
    return ConfigError("a side of the audit cannot be read", you_wrote=text, you_want=want)
