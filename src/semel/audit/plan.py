"""What an audit is asked to do, from flags or from a small file.

    from = "kafka://localhost:9092/orders"
    key = "id"

    [map]
    id = "get_json_object(string(value), '$.id')"

    [[to]]
    place = "kafka://localhost:9092/payments"
    map = { id = "get_json_object(string(value), '$.order')" }

    [[to]]
    place = "parquet:/data/shipments"

Keeps: a name that means nothing here is refused, and so is a value of the wrong kind.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from semel.audit.expectation import Expectation
from semel.audit.places import Files, Table, Topic, parse_place
from semel.errors import ConfigError
from semel.guarantee import Guarantee

# Read with a limit: the path may be that of a device, or of the data itself.
FILE_BYTES_MAX = 1_000_000
_TEXTS = ("from", "expect", "where", "pipeline", "guarantee", "command_config", "jdbc_config", "time", "unit")
_TEXT_LISTS = ("key", "content")
_FLAGS = ("order", "stamp")
_TOP = (*_TEXTS, *_TEXT_LISTS, *_FLAGS, "map", "to")
_SIDE = ("place", "map", "command_config", "jdbc_config", "time")


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePlan:
    """One side: where it is, columns that it gets by SQL, and the file of settings to connect with."""

    place: Topic | Files | Table
    columns: Mapping[str, str] = field(default_factory=dict)
    command_config: str = ""
    jdbc_config: str = ""
    """A file with the login of a database, and with how to read a table."""
    time: str = ""
    """SQL for when a record was written, for the charts; a topic has a time without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """A whole audit; `content` None means the columns that both sides have."""

    left: SidePlan
    rights: tuple[SidePlan, ...]
    key: tuple[str, ...] = ()
    content: tuple[str, ...] | None = None
    expectation: Expectation = field(default_factory=Expectation)
    pipeline: str = ""
    guarantee: Guarantee | None = None
    """What the pipeline declares; without one, exactly once."""
    order: bool = False
    unit: str = ""
    """SQL over the left side for what a record was written with; TORN is looked for then."""
    stamp: bool = False
    """Whether records are known by the source offset that a sink has stamped."""

    def __post_init__(self) -> None:
        """Refuse sides that do not go together."""
        texts = [one.place.text for one in self.rights]
        if not texts:
            raise ConfigError("there is no right side", you_want="semel audit FROM TO")
        if len(set(texts)) < len(texts):
            raise ConfigError("a right side is named twice", you_want="each once")
        for one in self.sides:
            if one.jdbc_config and not isinstance(one.place, Table):
                raise ConfigError(f"jdbc_config says how to reach a database, and {one.place.text} is in none")
            if one.command_config and not isinstance(one.place, Topic):
                raise ConfigError(f"command_config says how to reach a cluster, and {one.place.text} is in none")
        if self.guarantee is not None and not self.pipeline:
            raise ConfigError(
                "a guarantee says how the ledger of a pipeline is to be read, and no pipeline is named",
                you_want="expect=at-least-one or at-most-one for what may be missing or doubled",
            )
        if self.stamp and (self.key or not isinstance(self.left.place, Topic)):
            raise ConfigError(
                "a stamp says which record of a source topic a right record comes from, and so who it is",
                you_wrote=f"key {', '.join(self.key)}" if self.key else self.left.place.text,
                you_want="a topic on the left, and no key",
            )
        if self.order and not all(isinstance(one.place, Topic) for one in self.sides):
            raise ConfigError("an order can be judged between topics", because="a file or a table has no order")

    @property
    def sides(self) -> tuple[SidePlan, ...]:
        """All of them, the left one first."""
        return (self.left, *self.rights)

    def with_jdbc_config(self, path: str) -> AuditPlan:
        """The plan with one file for all its tables; ConfigError if they are in several databases, or in none."""
        if len({one.place.url for one in self.sides if isinstance(one.place, Table)}) != 1:
            raise ConfigError(
                "--jdbc-config is for the tables of one database",
                you_want="--config FILE with jdbc_config for each side",
                because="its password is not meant for the other one",
            )
        if any(one.jdbc_config for one in self.sides):
            raise ConfigError("--jdbc-config and the file of the audit both say how to log in", you_want="one of them")
        left, *rights = (replace(one, jdbc_config=path) if isinstance(one.place, Table) else one for one in self.sides)
        return replace(self, left=left, rights=tuple(rights))

    def with_command_config(self, path: str) -> AuditPlan:
        """The plan with one file of settings for all its topics; ConfigError if they are in several clusters."""
        sides = self.sides
        if len({one.place.bootstrap for one in sides if isinstance(one.place, Topic)}) != 1:
            raise ConfigError(
                "--command-config is for the topics of one cluster",
                you_want="--config FILE with command_config for each side",
                because="its passwords are not meant for the other cluster",
            )
        if any(one.command_config for one in sides):
            raise ConfigError(
                "--command-config and the file of the audit both say how to connect", you_want="one of them"
            )
        left, *rights = (replace(one, command_config=path) if isinstance(one.place, Topic) else one for one in sides)
        return replace(self, left=left, rights=tuple(rights))


def plan_from_texts(
    left: str,
    rights: Sequence[str],
    *,
    key: Sequence[str] = (),
    content: Sequence[str] | None = None,
    left_columns: Sequence[str] = (),
    right_columns: Sequence[str] = (),
    expect: str = "exactly-one",
    where: str = "",
    pipeline: str = "",
    guarantee: str = "",
    order: bool = False,
    unit: str = "",
    stamp: bool = False,
    left_time: str = "",
    right_time: str = "",
) -> AuditPlan:
    """Read what stands on a command line; all right sides get the same columns."""
    theirs = named_values("--map-right", right_columns)
    return AuditPlan(
        left=SidePlan(place=parse_place(left), columns=named_values("--map-left", left_columns), time=left_time),
        rights=tuple(SidePlan(place=parse_place(one), columns=theirs, time=right_time) for one in rights),
        key=tuple(key),
        content=None if content is None else tuple(content),
        expectation=Expectation.parse(expect, where=where),
        pipeline=pipeline,
        guarantee=Guarantee.parse(guarantee) if guarantee else None,
        order=order,
        unit=unit,
        stamp=stamp,
    )


def plan_from_file(path: str) -> AuditPlan:
    """Read a TOML file; ConfigError that names the file and what is wrong in it."""
    try:
        with Path(path).open("rb") as file:
            # One byte more shows that there is more.
            text = file.read(FILE_BYTES_MAX + 1)
        if len(text) > FILE_BYTES_MAX:
            raise ConfigError(f"{path} is no description of an audit", because=f"it is over {FILE_BYTES_MAX:,} bytes")
        found = tomllib.loads(text.decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path} cannot be read: {why}", you_want="a TOML file, see the guide") from None
    return _plan_from_table(path, found)


def _plan_from_table(path: str, found: Mapping[str, object]) -> AuditPlan:
    _check_names(path, found, _TOP)
    texts = {name: _text(path, name, found.get(name, "")) for name in _TEXTS}
    lists = {name: _texts(path, name, found[name]) for name in _TEXT_LISTS if name in found}
    flags = {name: _truth(path, name, found.get(name, False)) for name in _FLAGS}
    sides = found.get("to", [])
    if not texts["from"] or not isinstance(sides, list) or not all(isinstance(one, dict) for one in sides):
        raise ConfigError(f"{path} does not name both sides", you_want='from = "…", and [[to]] with place = "…"')
    for side in sides:
        _check_names(path, side, _SIDE)
    return AuditPlan(
        left=SidePlan(
            place=parse_place(texts["from"]),
            columns=_columns(path, found.get("map", {})),
            command_config=texts["command_config"],
            jdbc_config=texts["jdbc_config"],
            time=texts["time"],
        ),
        rights=tuple(
            SidePlan(
                place=parse_place(_text(path, "place", side.get("place", ""))),
                columns=_columns(path, side.get("map", {})),
                command_config=_text(path, "command_config", side.get("command_config", "")),
                jdbc_config=_text(path, "jdbc_config", side.get("jdbc_config", "")),
                time=_text(path, "time", side.get("time", "")),
            )
            for side in sides
        ),
        key=lists.get("key", ()),
        content=lists.get("content"),
        expectation=Expectation.parse(texts["expect"] or "exactly-one", where=texts["where"]),
        pipeline=texts["pipeline"],
        guarantee=Guarantee.parse(texts["guarantee"]) if texts["guarantee"] else None,
        order=flags["order"],
        unit=texts["unit"],
        stamp=flags["stamp"],
    )


def named_values(option: str, pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE pairs; ConfigError for one that is none, or comes twice."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip() or not value.strip() or name.strip() in found:
            raise ConfigError(f"{option} {pair!r} cannot be read", you_want=f"{option} NAME=VALUE, each name once")
        found[name.strip()] = value.strip()
    return found


def _check_names(path: str, found: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in found:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(f"{path}: {name!r} means nothing here", you_want=close[0] if close else ", ".join(known))


def _truth(path: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong_value(path, name, value, "true or false")
    return value


def _text(path: str, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong_value(path, name, value, "a text in quotes")
    return value


def _texts(path: str, name: str, value: object) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise _wrong_value(path, name, value, "a text in quotes, or a list of them")
    return tuple(values)


def _columns(path: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) and one.strip() for one in value.values()):
        raise _wrong_value(path, "map", value, 'columns and SQL, such as id = "order_id"')
    return dict(value)


def _wrong_value(path: str, name: str, value: object, want: str) -> ConfigError:
    return ConfigError(f"{path}: {name} cannot be {str(value)[:60]!r}", you_want=want)
