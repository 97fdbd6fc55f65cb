"""Writes src/semel/protocol/messages/ and error_codes.py from the protocol facts that kio's schema classes carry.

Run it after a kio update: `make generate`. A test compares what it would write with what
is there. Taken over are facts of the protocol (names, types, versions, tags, defaults); no text is.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import types
import typing
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map

ROOT = Path(__file__).resolve().parent.parent / "src/semel/protocol"
NAMES = (
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_fetch",
    "find_coordinator",
    "join_group",
    "heartbeat",
    "leave_group",
    "sync_group",
    "describe_groups",
    "list_groups",
    "sasl_handshake",
    "api_versions",
    "create_topics",
    "delete_topics",
    "delete_records",
    "init_producer_id",
    "offset_for_leader_epoch",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "end_txn",
    "write_txn_markers",
    "txn_offset_commit",
    "describe_acls",
    "create_acls",
    "delete_acls",
    "describe_configs",
    "alter_configs",
    "describe_log_dirs",
    "sasl_authenticate",
    "create_partitions",
    "delete_groups",
    "elect_leaders",
    "incremental_alter_configs",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "offset_delete",
    "describe_client_quotas",
    "alter_client_quotas",
    "describe_user_scram_credentials",
    "alter_user_scram_credentials",
    "describe_quorum",
    "describe_cluster",
    "describe_producers",
    "describe_transactions",
    "list_transactions",
    "consumer_group_heartbeat",
    "consumer_group_describe",
    "list_config_resources",
    "describe_topic_partitions",
    "request_header",
    "response_header",
)
KINDS = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
PYTHON = {
    "string": "str",
    "legacy_string": "str",
    "bytes": "bytes",
    "records": "Part",
    "uuid": "UUID",
    "bool": "bool",
    "float64": "float",
}
ZERO = {"str": '""', "bytes": 'b""', "Part": 'b""', "UUID": "None", "bool": "False", "float": "0.0", "int": "0"}
NEVER = 1 << 15


@dataclasses.dataclass
class FieldFacts:
    """What all versions together say about one field."""

    name: str
    kind: str
    array: bool
    nested: str | None
    versions: set[int] = dataclasses.field(default_factory=set)
    nullable: set[int] = dataclasses.field(default_factory=set)
    tagged: set[int] = dataclasses.field(default_factory=set)
    tag: int | None = None
    default: str = ""

    @property
    def python_type(self) -> str:
        inner = self.nested or PYTHON.get(self.kind, "int")
        shown = f"Sequence[{inner}]" if self.array else inner
        if self.nullable or (inner == "UUID" and not self.array):
            shown += " | None"
        return shown

    def render(self) -> Iterator[str]:
        yield f"    {self.name}: {self.python_type} = {self.default}"

    def render_fact(self) -> str:
        parts = [repr(self.name), repr(self.kind), str(min(self.versions)), str(max(self.versions))]
        assert self.versions == set(range(min(self.versions), max(self.versions) + 1)), self.name
        if self.nullable:
            assert self.nullable == {v for v in self.versions if v >= min(self.nullable)}, self.name
            parts.append(f"nullable_first={min(self.nullable)}")
        if self.tag is not None:
            assert self.tagged == {v for v in self.versions if v >= min(self.tagged)}, self.name
            parts.append(f"tag={self.tag}, tagged_first={min(self.tagged)}")
        if self.array:
            parts.append("array=True")
        if self.nested:
            parts.append(f"message={self.nested}")
        return f"Field({', '.join(parts)})"


@dataclasses.dataclass
class ClassFacts:
    """What all versions together say about one class."""

    name: str
    key: int
    order: list[str] = dataclasses.field(default_factory=list)
    fields: dict[str, FieldFacts] = dataclasses.field(default_factory=dict)
    versions: set[int] = dataclasses.field(default_factory=set)
    flexible: set[int] = dataclasses.field(default_factory=set)

    def render(self) -> Iterator[str]:
        first_flexible = min(self.flexible) if self.flexible else NEVER
        yield "@dataclass(slots=True, kw_only=True)"
        yield f"class {self.name}(Message):"
        yield f"    API_KEY: ClassVar[int] = {self.key}"
        yield f"    FIRST: ClassVar[int] = {min(self.versions)}"
        yield f"    LAST: ClassVar[int] = {max(self.versions)}"
        yield f"    FLEXIBLE_FROM: ClassVar[int] = {first_flexible}"
        for name in self.order:
            yield from self.fields[name].render()
        yield "    FIELDS: ClassVar[tuple[Field, ...]] = ("
        for name in self.order:
            yield f"        {self.fields[name].render_fact()},"
        yield "    )"


def strip_optional(kind: object) -> tuple[object, bool]:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        inner = [arg for arg in typing.get_args(kind) if arg is not types.NoneType]
        assert len(inner) == 1, kind
        return inner[0], True
    return kind, False


def field_name(name: str, kafka_type: str) -> str:
    timed = kafka_type.startswith(("timedelta", "datetime"))
    return name if not timed or name.endswith("_ms") else f"{name}_ms"


def shown_default(value: object, facts: FieldFacts) -> str:
    if facts.array:
        return "None" if value is None else "()"
    if facts.nested:
        return "None" if value is None else f"field(default_factory={facts.nested})"
    if isinstance(value, timedelta):
        return str(round(value.total_seconds() * 1000))
    if facts.kind in ("int64",) and value is None:
        return "-1"
    if value is None or value == "" or isinstance(value, (uuid.UUID, bytes)):
        return "None" if value is None or isinstance(value, uuid.UUID) else repr(value)
    return repr(bool(value)) if facts.kind == "bool" else repr(value.real if isinstance(value, int) else str(value))


class Collector:
    """Reads the versions of one message into ClassFacts, nested classes first."""

    def __init__(self, ambiguous: frozenset[str]) -> None:
        """`ambiguous` names stand for one structure in requests and for another in responses."""
        self.ambiguous = ambiguous
        self.classes: dict[str, ClassFacts] = {}

    def collect(self, cls: type, version: int) -> str:
        is_renamed = cls.__name__ in self.ambiguous and cls.__module__.endswith(".response")
        name = f"Response{cls.__name__}" if is_renamed else cls.__name__
        resolved = typing.get_type_hints(cls)
        rows = [self._field(cls, field, resolved[field.name], version) for field in dataclasses.fields(cls)]
        facts = self.classes.setdefault(name, ClassFacts(name, int(getattr(cls, "__api_key__", -1))))
        facts.versions.add(version)
        if getattr(cls, "__flexible__", False):
            facts.flexible.add(version)
        position = 0
        for row in rows:
            merge(facts, row, position)
            position = facts.order.index(row.name) + 1
        return name

    def nested_first(self) -> Iterator[ClassFacts]:
        done: set[str] = set()

        def visit(facts: ClassFacts) -> Iterator[ClassFacts]:
            if facts.name in done:
                return
            done.add(facts.name)
            for row in facts.fields.values():
                if row.nested:
                    yield from visit(self.classes[row.nested])
            yield facts

        for facts in self.classes.values():
            yield from visit(facts)

    def _field(self, cls: type, field: dataclasses.Field[object], hint: object, version: int) -> FieldFacts:
        hint, nullable = strip_optional(hint)
        array = typing.get_origin(hint) is tuple
        if array:
            hint, _ = strip_optional(typing.get_args(hint)[0])
        kafka_type = field.metadata.get("kafka_type", "")
        nested = self.collect(hint, version) if not kafka_type and isinstance(hint, type) else None
        kind = KINDS.get(kafka_type, kafka_type) or "message"
        if cls.__name__ == "RequestHeader" and field.name == "client_id":
            kind = "legacy_string"  # this one string keeps its two-byte length in flexible versions
        facts = FieldFacts(field_name(field.name, kafka_type), kind, array, nested)
        facts.versions = {version}
        facts.tag = field.metadata.get("tag")
        facts.tagged = {version} if facts.tag is not None else set()
        if nullable and kafka_type not in ("uuid", "datetime_i64"):
            facts.nullable = {version}
        facts.default = self._default(field, facts)
        return facts

    def _default(self, field: dataclasses.Field[object], facts: FieldFacts) -> str:
        if field.default is not dataclasses.MISSING:
            return shown_default(field.default, facts)
        if facts.array:
            return "()"
        if facts.nested:
            return "None" if facts.nullable else f"field(default_factory={facts.nested})"
        return ZERO[PYTHON.get(facts.kind, "int")]


def merge(facts: ClassFacts, row: FieldFacts, position: int) -> None:
    old = facts.fields.get(row.name)
    if old is None:
        facts.order.insert(position, row.name)
        facts.fields[row.name] = row
        return
    assert (old.kind, old.array, old.nested) == (row.kind, row.array, row.nested), (facts.name, row.name)
    old.versions |= row.versions
    old.nullable |= row.nullable
    old.tagged |= row.tagged
    old.tag = row.tag if row.tag is not None else old.tag
    old.default = row.default


def load(path: str) -> type:
    module_name, _, attribute = path.partition(":")
    loaded = getattr(importlib.import_module(module_name), attribute)
    assert isinstance(loaded, type)
    return loaded


def nested_classes(cls: type) -> dict[str, type]:
    """The structures inside a message, by field."""
    hints = {name: strip_optional(hint)[0] for name, hint in typing.get_type_hints(cls).items()}
    inner = {
        field.name: strip_optional((typing.get_args(hints[field.name]) or (hints[field.name],))[0])[0]
        for field in dataclasses.fields(cls)
        if not field.metadata.get("kafka_type", "")
    }
    return {name: kind for name, kind in inner.items() if isinstance(kind, type)}


def structures(cls: type) -> dict[str, object]:
    """What each name inside a message stands for: its fields, all the way down."""
    found: dict[str, object] = {}
    for kind in nested_classes(cls).values():
        found |= structures(kind)
    inside = {name: found[kind.__name__] for name, kind in nested_classes(cls).items()}
    return found | {cls.__name__: [(field.name, inside.get(field.name)) for field in dataclasses.fields(cls)]}


def ambiguous_names(name: str) -> frozenset[str]:
    """Names that mean one thing in the requests of an API and another in the responses of the same version."""
    unequal: set[str] = set()
    for paths in schema_name_map[name].values():
        both = [structures(load(path)) for path in paths.values()]
        if len(both) == 2:
            unequal |= {shared for shared in both[0].keys() & both[1].keys() if both[0][shared] != both[1][shared]}
    return frozenset(unequal)


def render_module(name: str) -> str:
    collector = Collector(ambiguous_names(name))
    tops: dict[str, None] = {}
    for version in sorted(schema_name_map[name]):
        for path in schema_name_map[name][version].values():
            tops[collector.collect(load(path), version)] = None
    first, last = min(schema_name_map[name]), max(schema_name_map[name])
    body = [line for facts in collector.nested_first() for line in ("", "", *facts.render())]
    return "\n".join([*head(name, first, last, "\n".join(body)), *body, ""])


def head(name: str, first: int, last: int, body: str) -> Iterator[str]:
    yield f'"""{name}, v{first}-{last}. Made by tools/generate_messages.py; change that, not this."""'
    yield ""
    imports = {"Sequence[": "from collections.abc import Sequence"}
    yield from (line for mark, line in imports.items() if mark in body)
    yield "from dataclasses import dataclass, field" if "field(" in body else "from dataclasses import dataclass"
    yield "from typing import ClassVar"
    if "UUID" in body:
        yield "from uuid import UUID"
    yield ""
    yield "from semel.protocol.message import Field, Message" + (", Part" if "Part " in body else "")


def render_errors() -> str:
    lines = [
        '"""Kafka\'s error codes. Made by tools/generate_messages.py; change that, not this."""',
        "",
        "from enum import IntEnum",
    ]
    lines += ["", "", "class ErrorCode(IntEnum):", '    """The number that a response carries."""', ""]
    lines += [f"    {code.name.upper()} = {int(code)}" for code in sorted(KioErrorCode)]
    lines += [
        "",
        "    @property",
        "    def retriable(self) -> bool:",
        '        """Tell whether sending the same again may succeed."""',
    ]
    lines += ["        return self in _RETRIABLE", "", ""]
    retriable = [f"        ErrorCode.{code.name.upper()}," for code in sorted(KioErrorCode) if code.retriable]
    return "\n".join([*lines, "_RETRIABLE = frozenset(", "    {", *retriable, "    }", ")", ""])


def render_all() -> dict[Path, str]:
    files = {ROOT / "messages" / f"{name}.py": render_module(name) for name in NAMES}
    files[ROOT / "messages" / "__init__.py"] = (
        '"""One module per Kafka message: its request and response class, with the structures inside them.\n\n'
        'Made by tools/generate_messages.py; change that, not this.\n"""\n'
    )
    files[ROOT / "error_codes.py"] = render_errors()
    return files


def main() -> None:
    made = render_all()
    for path in set((ROOT / "messages").glob("*.py")) - made.keys():
        path.unlink()
    for path, text in made.items():
        path.write_text(text)
    print(f"{len(NAMES)} message modules written", file=sys.stderr)


if __name__ == "__main__":
    main()
