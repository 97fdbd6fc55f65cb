"""Turns a message class into straight-line read and write functions for one version.

Why: a broker reads and writes thousands of messages a second; walking field tables for each costs several times the
work itself. The functions are built from field tables that are part of this package, never from input.
"""

from __future__ import annotations

import struct
import sys
import threading
import uuid
from typing import cast

from semel.protocol.message import (
    Field,
    Message,
    Output,
    PausingWriter,
    Reader,
    Writer,
    pausing_writer_of,
    reader_of,
    writer_of,
)

FIXED = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "bool": "?",
}
# An int16 length. Compact strings could say more, but Kafka's own code refuses that.
STRING_BYTES_MAX = 0x7FFF
# So few that an answer with many rows does not hold the loop for long.
ELEMENTS_BETWEEN_PAUSES = 200
LEGACY_STRING = "legacy_string"  # keeps its two-byte length in flexible versions: the client id in a request header
ZERO_UUID = uuid.UUID(int=0)


def read_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes."""
    byte = view[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = view[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
    raise ValueError("varint longer than five bytes")


def write_uvarint(buffer: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value >= 0x80:
        buffer.append(value & 0x7F | 0x80)
        value >>= 7
    buffer.append(value)


def take(view: memoryview, position: int, size: int) -> tuple[memoryview, int]:
    """Slice `size` bytes; a slice must not come out short."""
    end = position + size
    if end > len(view):
        raise ValueError(f"{size} bytes announced where {len(view) - position} are left")
    return view[position:end], end


# Of the thread: clusters of one process decode in threads of their own, at the same time.
class _Budget(threading.local):
    """How many more elements of arrays the message that this thread decodes may have."""

    left = sys.maxsize


_budget = _Budget()


def limit_elements(elements_max: int = sys.maxsize) -> int:
    """Let this thread decode so many elements of arrays until the next call; what is left of the last limit."""
    left, _budget.left = _budget.left, elements_max
    return left


def check_count(view: memoryview, position: int, count: int) -> int:
    """Refuse an array that announces more elements than there are bytes left, or than may be decoded."""
    # An element takes a byte at least, so nothing is built from a number that the bytes cannot hold.
    if count > len(view) - position:
        raise ValueError(f"{count} elements announced where {len(view) - position} bytes are left")
    _budget.left -= count
    if _budget.left < 0:
        raise ValueError("it has more elements than are decoded")
    return count


def refuse_string(size_bytes: int) -> ValueError:
    """The error for a string that Kafka's own code does not read either."""
    return ValueError(f"a string of {size_bytes} bytes, more than {STRING_BYTES_MAX}")


def skip_tags(view: memoryview, position: int) -> int:
    """Pass over a tagged-field section of which nothing is known."""
    count, position = read_uvarint(view, position)
    for _ in range(check_count(view, position, count)):
        _, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        _, position = take(view, position, size)
    return position


def null_refused() -> ValueError:
    """The error for a null where the version allows none."""
    return ValueError("null where the version allows none")


class _Source:
    """Lines of a function being written, and the names it may use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, object] = {
            "read_uvarint": read_uvarint,
            "write_uvarint": write_uvarint,
            "take": take,
            "check_count": check_count,
            "skip_tags": skip_tags,
            "null_refused": null_refused,
            "refuse_string": refuse_string,
            "UUID": uuid.UUID,
            "ZERO_UUID": ZERO_UUID,
            "Output": Output,
        }

    def add(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def constant(self, prefix: str, value: object) -> str:
        # Objects go in by name: text could not hold a compiled function or a class.
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def build(self, name: str) -> object:
        # Names and numbers come from the generated field tables only.
        exec("\n".join(self.lines), self.names)  # noqa: S102  (text made here from our own tables)
        return self.names[name]


def compile_reader(cls: type[Message], version: int) -> Reader:
    """Build `read(view, position) -> (message, position)`."""
    source = _Source()
    flexible = version >= cls.FLEXIBLE_FROM
    own = source.constant("cls", cls)
    source.add(0, "def read(v, p):")
    present = [field for field in cls.FIELDS if field.in_version(version)]
    plain = [field for field in present if not field.tagged_in(version)]
    index = 0
    while index < len(plain):
        run = _fixed_run(plain, index)
        if run:
            # Neighbours of fixed size are read with one call, which is most of what compiling gains.
            unpacker = struct.Struct(">" + "".join(FIXED[field.kind] for field in run))
            names = ", ".join(f"f_{field.name}" for field in run)
            source.add(
                1, f"{names}, = {source.constant('unpack', unpacker.unpack_from)}(v, p)", f"p += {unpacker.size}"
            )
            index += len(run)
        else:
            _read_field(source, plain[index], version, flexible=flexible, depth=1)
            index += 1
    tagged = [field for field in present if field.tagged_in(version)]
    if flexible:
        _read_tags(source, tagged, version)
    arguments = ", ".join(f"{field.name}=f_{field.name}" for field in plain)
    source.add(1, f"m = {own}({arguments})")
    source.add(1, *(["for n, x in t.items(): setattr(m, n, x)"] if tagged else []), "return m, p")
    return cast(Reader, source.build("read"))


def _fixed_run(fields: list[Field], start: int) -> list[Field]:
    run: list[Field] = []
    for field in fields[start:]:
        if field.array or field.kind not in FIXED:
            break
        run.append(field)
    return run


def _read_tags(source: _Source, tagged: list[Field], version: int) -> None:
    if not tagged:
        # Nearly every message has no tags: one byte.
        source.add(1, "p = p + 1 if v[p] == 0 else skip_tags(v, p)")
        return
    source.add(1, "t = {}", "n, p = read_uvarint(v, p)", "for _ in range(check_count(v, p, n)):")
    source.add(2, "g, p = read_uvarint(v, p)", "s, p = read_uvarint(v, p)", "tag_end = take(v, p, s)[1]")
    for field in tagged:
        source.add(2, f"if g == {field.tag}:")
        _read_field(source, field, version, flexible=True, depth=3)
        source.add(3, f"t[{field.name!r}] = f_{field.name}")
        source.add(3, "if p != tag_end: raise ValueError('a tagged field has another size than announced')")
    # Also behind a tag that is not known: a newer peer may send more than this side understands.
    source.add(2, "p = tag_end")


def _read_field(source: _Source, field: Field, version: int, *, flexible: bool, depth: int) -> None:
    nullable = field.nullable_in(version)
    if field.array:
        _read_array(source, field, version, flexible=flexible, nullable=nullable, depth=depth)
    else:
        _read_value(source, field, f"f_{field.name}", version, flexible=flexible, nullable=nullable, depth=depth)


def _read_array(source: _Source, field: Field, version: int, *, flexible: bool, nullable: bool, depth: int) -> None:
    name = f"f_{field.name}"
    _read_length(source, "n", "i", flexible=flexible, depth=depth)
    source.add(depth, "if n < 0:", f"    {name} = None" if nullable else "    raise null_refused()", "else:")
    inner = depth + 1
    if field.kind in FIXED:
        letter = FIXED[field.kind]
        size = struct.calcsize(">" + letter)
        unpack = source.constant("struct_", struct)
        source.add(inner, f"q, e = take(v, p, check_count(v, p, n) * {size})")
        source.add(inner, f"{name} = {unpack}.unpack('>%d{letter}' % n, q)", "p = e")
        return
    source.add(inner, f"{name} = []", "for _ in range(check_count(v, p, n)):")
    _read_value(source, field, "x", version, flexible=flexible, nullable=False, depth=inner + 1)
    source.add(inner + 1, f"{name}.append(x)")


def _read_length(source: _Source, name: str, legacy: str, *, flexible: bool, depth: int) -> None:
    if flexible:
        # Nearly every length is one byte: a call for each would cost more than the rest of the field.
        source.add(depth, f"{name} = v[p]", f"if {name} < 128: p += 1", f"else: {name}, p = read_uvarint(v, p)")
        source.add(depth, f"{name} -= 1")
    else:
        unpacker = struct.Struct(">" + legacy)
        unpack = source.constant("unpack", unpacker.unpack_from)
        source.add(depth, f"{name}, = {unpack}(v, p)", f"p += {unpacker.size}")


def _legacy_length(field: Field) -> str:
    return "h" if field.kind in ("string", LEGACY_STRING) else "i"


def _read_value(
    source: _Source, field: Field, name: str, version: int, *, flexible: bool, nullable: bool, depth: int
) -> None:
    if field.message is not None:
        _read_nested(source, field, name, version, nullable=nullable, depth=depth)
    elif field.kind == "uuid":
        source.add(depth, "q, p = take(v, p, 16)", f"{name} = UUID(bytes=bytes(q))")
        source.add(depth, f"if {name} == ZERO_UUID: {name} = None")
    elif field.kind in FIXED:
        unpacker = struct.Struct(">" + FIXED[field.kind])
        source.add(depth, f"{name}, = {source.constant('unpack', unpacker.unpack_from)}(v, p)", f"p += {unpacker.size}")
    else:
        _read_length(source, "s", _legacy_length(field), flexible=flexible and field.kind != LEGACY_STRING, depth=depth)
        source.add(depth, "if s < 0:", f"    {name} = None" if nullable else "    raise null_refused()", "else:")
        convert = {"bytes": "bytes(v[p:e])", "records": "v[p:e]"}.get(field.kind, "str(v[p:e], 'utf-8')")
        if field.kind == "string" and flexible:  # two bytes of length cannot say more
            source.add(depth + 1, f"if s > {STRING_BYTES_MAX}: raise refuse_string(s)")
        source.add(depth + 1, "e = p + s", "if e > len(v): take(v, p, s)", f"{name} = {convert}", "p = e")


def _read_nested(source: _Source, field: Field, name: str, version: int, *, nullable: bool, depth: int) -> None:
    assert field.message is not None
    read = source.constant("read_", reader_of(field.message, version))
    if nullable:
        # A structure that may be null has a byte before it: -1 for null.
        source.add(depth, "b = v[p]", "p += 1", f"if b == 255: {name} = None", f"else: {name}, p = {read}(v, p)")
    else:
        source.add(depth, f"{name}, p = {read}(v, p)")


def compile_writer(cls: type[Message], version: int) -> Writer:
    """Build `write(message, output)`."""
    return cast(Writer, _build_writer(cls, version, pausing=False))


def compile_pausing_writer(cls: type[Message], version: int) -> PausingWriter:
    """Build `write(message, output)` as a generator, which stops after every few hundred elements of its arrays."""
    return cast(PausingWriter, _build_writer(cls, version, pausing=True))


def _build_writer(cls: type[Message], version: int, *, pausing: bool) -> object:
    source = _Source()
    flexible = version >= cls.FLEXIBLE_FROM
    source.add(0, "def write(m, out):")
    # A local name for the buffer, fetched again wherever a payload may have begun a new one.
    source.add(1, "b = out.buffer")
    if pausing:
        # Makes a generator of it even where nothing pauses.
        source.add(1, "yield from ()")
    present = [field for field in cls.FIELDS if field.in_version(version)]
    plain = [field for field in present if not field.tagged_in(version)]
    index = 0
    while index < len(plain):
        run = _fixed_run(plain, index)
        if run:
            packer = struct.Struct(">" + "".join(FIXED[field.kind] for field in run))
            values = ", ".join(f"m.{field.name}" for field in run)
            source.add(1, f"b += {source.constant('pack', packer.pack)}({values})")
            index += len(run)
        else:
            source.add(1, f"x = m.{plain[index].name}")
            _write_field(source, plain[index], version, flexible=flexible, depth=1, pausing=pausing)
            index += 1
    if flexible:
        _write_tags(source, cls, [field for field in present if field.tagged_in(version)], version)
    return source.build("write")


def _write_tags(source: _Source, cls: type[Message], tagged: list[Field], version: int) -> None:
    if not tagged:
        source.add(1, "b.append(0)")
        return
    # A tagged field that has its default is left out: that is what makes it optional.
    defaults = source.constant("defaults", cls())
    # Tags have to be written in rising order.
    tagged = sorted(tagged, key=lambda field: field.tag or 0)
    names = ", ".join(f"m.{field.name} != {defaults}.{field.name}" for field in tagged)
    source.add(1, f"present = ({names},)", "b.append(sum(present))", "after = b")
    for index, field in enumerate(tagged):
        source.add(1, f"if present[{index}]:")
        # The size of a tagged field stands before it, so it is written to a buffer of its own first.
        source.add(2, "nested = Output()", "out, b = nested, nested.buffer", f"x = m.{field.name}")
        _write_field(source, field, version, flexible=True, depth=2)
        source.add(2, f"write_uvarint(after, {field.tag})", "write_uvarint(after, len(b))", "after += b")


def _write_field(
    source: _Source, field: Field, version: int, *, flexible: bool, depth: int, pausing: bool = False
) -> None:
    nullable = field.nullable_in(version)
    if not field.array:
        _write_value(source, field, version, flexible=flexible, nullable=nullable, depth=depth)
        return
    if nullable:
        source.add(depth, "if x is None:")
        _write_length(source, "-1", "i", flexible=flexible, depth=depth + 1)
        source.add(depth, "else:")
        depth += 1
    _write_length(source, "len(x)", "i", flexible=flexible, depth=depth)
    if field.kind in FIXED:
        pack = source.constant("struct_", struct)
        source.add(depth, f"b += {pack}.pack('>%d{FIXED[field.kind]}' % len(x), *x)")
        return
    if pausing and field.message is not None:
        _write_pausing(source, field.message, version, depth=depth)
        return
    source.add(depth, "for x in x:")
    _write_value(source, field, version, flexible=flexible, nullable=False, depth=depth + 1)


def _write_pausing(source: _Source, element: type[Message], version: int, *, depth: int) -> None:
    """An array of structures; those that hold arrays themselves pause inside as well, and count as many elements."""
    inner = [field for field in element.FIELDS if field.in_version(version) and field.array]
    source.add(depth, "for x in x:")
    source.add(depth + 1, "out.since_pause += 1", f"if out.since_pause >= {ELEMENTS_BETWEEN_PAUSES}:")
    source.add(depth + 2, "out.since_pause = 0", "yield")
    if inner:
        write = source.constant("write_", pausing_writer_of(element, version))
        source.add(depth + 1, f"yield from {write}(x, out)", "b = out.buffer")
    else:
        write = source.constant("write_", writer_of(element, version))
        source.add(depth + 1, f"{write}(x, out)", "b = out.buffer")


def _write_length(source: _Source, value: str, legacy: str, *, flexible: bool, depth: int) -> None:
    if not flexible:
        source.add(depth, f"b += {source.constant('pack', struct.Struct('>' + legacy).pack)}({value})")
    elif value == "-1":
        source.add(depth, "b.append(0)")
    else:
        source.add(depth, f"n = {value} + 1", "if n < 128: b.append(n)", "else: write_uvarint(b, n)")


def _write_value(source: _Source, field: Field, version: int, *, flexible: bool, nullable: bool, depth: int) -> None:
    if field.message is not None:
        _write_nested(source, field, version, nullable=nullable, depth=depth)
    elif field.kind == "uuid":
        source.add(depth, "b += (x or ZERO_UUID).bytes")
    elif field.kind in FIXED:
        source.add(depth, f"b += {source.constant('pack', struct.Struct('>' + FIXED[field.kind]).pack)}(x)")
    else:
        _write_sized(source, field, flexible=flexible, nullable=nullable, depth=depth)


def _write_nested(source: _Source, field: Field, version: int, *, nullable: bool, depth: int) -> None:
    assert field.message is not None
    write = source.constant("write_", writer_of(field.message, version))
    if nullable:
        source.add(depth, "if x is None: b.append(255)", "else:")
        depth += 1
        source.add(depth, "b.append(1)")
    source.add(depth, f"{write}(x, out)", "b = out.buffer")


def _write_sized(source: _Source, field: Field, *, flexible: bool, nullable: bool, depth: int) -> None:
    legacy = _legacy_length(field)
    flexible = flexible and field.kind != LEGACY_STRING
    if nullable:
        source.add(depth, "if x is None:")
        _write_length(source, "-1", legacy, flexible=flexible, depth=depth + 1)
        source.add(depth, "else:")
        depth += 1
    if legacy == "h":
        source.add(depth, "x = x.encode()")
    if field.kind == "records":
        source.add(depth, "size = len(x) if isinstance(x, (bytes, bytearray, memoryview)) else x.size_bytes")
        _write_length(source, "size", legacy, flexible=flexible, depth=depth)
        source.add(depth, "b = out.payload(x)")
    else:
        _write_length(source, "len(x)", legacy, flexible=flexible, depth=depth)
        source.add(depth, "b += x")
