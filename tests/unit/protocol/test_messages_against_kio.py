"""Every message class in every version against kio: same bytes both ways, over random values of the whole domain."""

import dataclasses
import importlib
import io
import random
import sys
import typing
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from semel.errors import ProtocolError
from semel.protocol.message import Message, check_version, decode, encode_bytes

sys.path.insert(0, str(Path(__file__).parents[3]))
from tools import generate_messages

INTEGERS = MappingProxyType(
    {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "error_code": 15, "timedelta_i32": 31, "timedelta_i64": 43}
)
CASES = [
    (name, version, path)
    for name in generate_messages.NAMES
    for version in sorted(schema_name_map[name])
    for path in schema_name_map[name][version].values()
]


class Maker:
    """Draws random kio entities."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def entity(self, cls: type) -> typing.Any:
        hints = typing.get_type_hints(cls)
        return cls(**{f.name: self.value(hints[f.name], f) for f in dataclasses.fields(cls)})

    def value(self, hint: typing.Any, field: typing.Any) -> typing.Any:
        if typing.get_origin(hint) in (UnionType, typing.Union):
            if self.random.random() < 0.3:
                return None
            hint = next(arg for arg in typing.get_args(hint) if arg is not NoneType)
        if typing.get_origin(hint) is tuple:
            inner = typing.get_args(hint)[0]
            return tuple(self.value(inner, field) for _ in range(self.random.choice([0, 1, 3])))
        kind = field.metadata.get("kafka_type")
        return self.entity(hint) if kind is None else self.primitive(kind)

    def primitive(self, kind: str) -> typing.Any:
        draw = self.random
        if kind in INTEGERS:
            bits = INTEGERS[kind]
            number = draw.choice([0, -1, 1, 2**bits - 1, -(2**bits), draw.randint(-(2**bits), 2**bits - 1)])
            if kind.startswith("timedelta"):
                return timedelta(milliseconds=number)
            return draw.choice(list(KioErrorCode)) if kind == "error_code" else number
        match kind:
            case "uint16":
                return draw.randint(0, 65535)
            case "bool":
                return draw.random() < 0.5
            case "float64":
                return draw.uniform(-1e9, 1e9)
            case "string":
                return draw.choice(["", "orders", "n\u00e4me \U0001f600", "x" * 300])
            case "bytes" | "records":
                return draw.choice([b"", draw.randbytes(10), draw.randbytes(9000)])
            case "uuid":
                return uuid.UUID(int=draw.getrandbits(128) | 1)
            case "datetime_i64":
                return datetime.fromtimestamp(draw.randint(0, 2**31), UTC)
        raise AssertionError(kind)


def semel_class(name: str, path: str) -> type[Message]:
    module = importlib.import_module(f"semel.protocol.messages.{name}")
    found: type[Message] = getattr(module, path.partition(":")[2])
    assert issubclass(found, Message)
    return found


@pytest.mark.parametrize(("name", "version", "path"), CASES, ids=lambda value: str(value).rpartition(":")[2])
def test_bytes_equal_kio(name: str, version: int, path: str) -> None:
    theirs = generate_messages.load(path)
    ours = semel_class(name, path)
    maker = Maker(f"{path}{version}")
    for _ in range(12):
        entity = maker.entity(theirs)
        buffer = io.BytesIO()
        entity_writer(theirs)(buffer, entity)
        data = buffer.getvalue()
        message = decode(ours, data, version)
        assert encode_bytes(message, version) == data
        assert entity_reader(theirs)(encode_bytes(message, version), 0)[0] == entity


@pytest.mark.parametrize(("name", "version", "path"), CASES[::7], ids=lambda value: str(value).rpartition(":")[2])
def test_cut_or_changed_bytes_are_a_protocol_error_or_a_message(name: str, version: int, path: str) -> None:
    theirs = generate_messages.load(path)
    ours = semel_class(name, path)
    maker = Maker(f"damage {path}{version}")
    buffer = io.BytesIO()
    entity_writer(theirs)(buffer, maker.entity(theirs))
    data = buffer.getvalue()[:400]
    for _ in range(200):
        damaged = bytearray(data[: maker.random.randint(0, len(data))])
        for _ in range(maker.random.randint(0, 3)):
            if damaged:
                damaged[maker.random.randrange(len(damaged))] = maker.random.randrange(256)
        try:
            decode(ours, bytes(damaged), version)
        except ProtocolError:
            continue


def test_generated_files_are_what_the_tool_writes() -> None:
    for path, text in generate_messages.render_all().items():
        assert path.read_text() == text, f"run tools/generate_messages.py: {path.name} differs"


def test_huge_array_count_is_refused_before_it_is_allocated() -> None:
    from semel.protocol.messages.metadata import MetadataRequest

    with pytest.raises(ProtocolError, match="announced"):
        decode(MetadataRequest, b"\x7f\xff\xff\xff", 1)


def test_unknown_version_is_refused() -> None:
    from semel.protocol.messages.metadata import MetadataRequest

    with pytest.raises(ProtocolError, match="no version 99"):
        check_version(MetadataRequest, 99)
