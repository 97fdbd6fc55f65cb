"""Requests made from the field tables: of every API, in every version, with fields at their extremes, or very wide."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from semel.broker.network.registry import AnyApi, apis
from semel.protocol.message import Field, Message
from semel.protocol.record_batch import Codec, DraftRecord, encode_batch

BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
TEXTS = ["", "quiet", "bulk", "a" * 249, "a" * 250, "a" * 32_767, "..", "a/b", "nul\0", "é€𝄞", "__consumer_offsets"]
BATCH = encode_batch([DraftRecord(key=b"k", value=b"v", timestamp_ms=1_700_000_000_000)], codec=Codec.ZSTD)
RECORD_SETS = [None, b"", b"\0", BATCH, BATCH[:-1], BATCH * 2, bytes(200), b"\xff" * 61]


def served_apis() -> list[AnyApi]:
    """Every API, in the order of keys."""
    return [entry for _, entry in sorted(apis().items())]


@dataclass(slots=True)
class Extremes:
    """Draws requests whose fields stand at the ends of their domains, or near what the cluster knows."""

    rng: random.Random
    elements_max: int = 3

    def request(self, api: AnyApi) -> tuple[Message, int]:
        """A request and the version to send it in."""
        version = self.rng.randint(api.first, api.last)
        return self.message(api.request, version), version

    def message(self, cls: type[Message], version: int) -> Message:
        """One message, or one structure inside of it."""
        drawn = {field.name: self.field(field, version) for field in cls.FIELDS if field.in_version(version)}
        return cls(**drawn)

    def field(self, field: Field, version: int) -> object:
        """The value of one field."""
        if field.nullable_in(version) and self.rng.random() < 0.2:
            return None
        if field.array:
            count = self.rng.randint(0, self.elements_max)
            return [self.value(field, version) for _ in range(count)]
        return self.value(field, version)

    def value(self, field: Field, version: int) -> object:
        """One value of a field's kind."""
        rng = self.rng
        if field.message is not None:
            return self.message(field.message, version)
        if field.kind in BITS:
            return _whole(rng, BITS[field.kind], signed=not field.kind.startswith("u"))
        match field.kind:
            case "bool":
                return rng.random() < 0.5
            case "float64":
                return rng.choice([0.0, -1.0, float("inf"), float("nan"), 1e308])
            case "uuid":
                return UUID(int=rng.choice([1, 2**128 - 1, rng.getrandbits(128)]))
            case "bytes":
                return rng.choice([b"", rng.randbytes(20), bytes(10_000)])
            case "records":
                return rng.choice(RECORD_SETS)
            case _:
                return rng.choice(TEXTS)


def _whole(rng: random.Random, bits: int, *, signed: bool) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return max(low, min(high, rng.choice([low, -2, -1, 0, 1, 2, 100, 70_000, high, rng.randint(low, high)])))


def widest(cls: type[Message], version: int, elements: int, *, name: Callable[[int], str], deep: bool) -> Message:
    """A request with so many elements: in its first array, or when `deep` in the first array inside of that."""
    arrays = [field for field in cls.FIELDS if field.in_version(version) and field.array]
    wide = arrays[:1]
    if deep and wide and wide[0].message is not None:
        inner = widest(wide[0].message, version, elements - 1, name=name, deep=False)
        return cls(**{wide[0].name: [inner]}) if inner != wide[0].message() else cls()
    drawn = {field.name: [_nth(field, version, number, name) for number in range(elements)] for field in wide}
    return cls(**drawn, **_names(cls, version, 0, name))


def _nth(field: Field, version: int, number: int, name: Callable[[int], str]) -> object:
    """The n-th element of an array: every one another."""
    if field.message is not None:
        return field.message(**_names(field.message, version, number, name))
    if field.kind in BITS:
        return number % (1 << BITS[field.kind] - 1)
    return name(number) if field.kind == "string" else field.kind == "bool"


def _names(cls: type[Message], version: int, number: int, name: Callable[[int], str]) -> dict[str, object]:
    """Names and numbers that are all different, where a structure has any."""
    drawn: dict[str, object] = {}
    for field in cls.FIELDS:
        if not field.in_version(version) or field.array:
            continue
        if field.kind == "string":
            drawn[field.name] = name(number)
        elif "partition" in field.name and field.kind == "int32":
            drawn[field.name] = number
    return drawn
