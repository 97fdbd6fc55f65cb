"""Kafka request and response messages: one typed class each, encoded and decoded for any version.

A message class lists its fields with the versions that have them (`messages/`, generated). A field that a version
lacks reads as its default and is left out when written, so code above sees one class whatever the peer speaks.
Times are integers in milliseconds, null ids are None, a record set is a view of the received bytes, not a copy.

Keeps: P1 bytes that do not fit the schema are a ProtocolError, never another exception and never a wrong value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from semel.errors import ProtocolError, UnsupportedVersionError


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message, and which versions have it in which form."""

    name: str
    kind: str
    first: int
    last: int
    # Above every version, which are int16: never.
    nullable_first: int = 1 << 15
    tag: int | None = None
    tagged_first: int = 1 << 15
    array: bool = False
    message: type[Message] | None = None

    def in_version(self, version: int) -> bool:
        """Tell whether this version has the field."""
        return self.first <= version <= self.last

    def nullable_in(self, version: int) -> bool:
        """Tell whether the field may be null in this version."""
        return version >= self.nullable_first

    def tagged_in(self, version: int) -> bool:
        """Tell whether the field is an optional tagged one in this version."""
        return self.tag is not None and version >= self.tagged_first


class Message:
    """Base of every message and every structure inside one."""

    __slots__ = ()
    API_KEY: ClassVar[int] = -1
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    # Beyond every version: never flexible unless a message says so.
    FLEXIBLE_FROM: ClassVar[int] = 1 << 15
    FIELDS: ClassVar[tuple[Field, ...]] = ()


@runtime_checkable
class Payload(Protocol):
    """Bytes that stay where they are until they are sent: a slice of a log file."""

    @property
    def size_bytes(self) -> int:
        """How many bytes it will put on the wire."""
        ...

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        """Read it piece by piece."""
        ...


Buffer = bytes | bytearray | memoryview
Part = Buffer | Payload
# Up to here a copy is cheaper than one more part to write.
PAYLOAD_COPY_BYTES_MAX = 4096


class Output:
    """Encoded parts in order; small values share a buffer, large ones and payloads stand alone."""

    __slots__ = ("buffer", "parts", "since_pause")

    def __init__(self) -> None:
        """Start empty."""
        self.since_pause = 0  # elements that a pausing writer has written since it last stopped
        self.buffer = bytearray()
        self.parts: list[Part] = []

    def payload(self, part: Part) -> bytearray:
        """Put a record set behind what was written so far; returns the buffer to go on with."""
        # What is large, or lies in a file, is not copied: it becomes a part of its own.
        if isinstance(part, (bytes, bytearray, memoryview)) and len(part) <= PAYLOAD_COPY_BYTES_MAX:
            self.buffer += part
            return self.buffer
        self.parts += (self.buffer, part)
        self.buffer = bytearray()
        return self.buffer

    def finish(self) -> list[Part]:
        """Return all parts."""
        self.parts.append(self.buffer)
        return self.parts


M = TypeVar("M", bound=Message)
Reader = Callable[[memoryview, int], tuple[Message, int]]
Writer = Callable[[Message, Output], None]
PausingWriter = Callable[[Message, Output], Generator[None, None, None]]
_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], Writer] = {}
_pausing_writers: dict[tuple[type[Message], int], PausingWriter] = {}


def reader_of(cls: type[Message], version: int) -> Reader:
    """Return the compiled reader of one class in one version."""
    found = _readers.get((cls, version))
    if found is None:
        check_version(cls, version)
        from semel.protocol.message_compiler import compile_reader  # noqa: PLC0415  (it imports this module)

        # Compiled when a version is first met: nobody speaks all of them, and
        # compiling them all would delay every start.
        found = _readers[cls, version] = compile_reader(cls, version)
    return found


def writer_of(cls: type[Message], version: int) -> Writer:
    """Return the compiled writer of one class in one version."""
    found = _writers.get((cls, version))
    if found is None:
        check_version(cls, version)
        from semel.protocol.message_compiler import compile_writer  # noqa: PLC0415  (it imports this module)

        found = _writers[cls, version] = compile_writer(cls, version)
    return found


def pausing_writer_of(cls: type[Message], version: int) -> PausingWriter:
    """Return the compiled writer that stops every now and then, of one class in one version."""
    found = _pausing_writers.get((cls, version))
    if found is None:
        check_version(cls, version)
        from semel.protocol.message_compiler import compile_pausing_writer  # noqa: PLC0415  (it imports this module)

        found = _pausing_writers[cls, version] = compile_pausing_writer(cls, version)
    return found


def check_version(cls: type[Message], version: int) -> None:
    """Refuse a version that the class does not have."""
    if not cls.FIRST <= version <= cls.LAST:
        raise UnsupportedVersionError(f"{cls.__name__} has no version {version}, only {cls.FIRST} to {cls.LAST}")


def decode_at(cls: type[M], buffer: Buffer, version: int, position: int = 0) -> tuple[M, int]:
    """Decode one message; returns it with the position behind it."""
    read = _readers.get((cls, version)) or reader_of(cls, version)
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    try:
        message, end = read(view, position)
    # All that compiled readers can raise on strange bytes. Anything else is a mistake of ours and is not hidden (P1).
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise ProtocolError(f"{cls.__name__} v{version} does not fit its schema: {error}") from None
    assert isinstance(message, cls)
    return message, end


def decode(cls: type[M], buffer: Buffer, version: int) -> M:
    """Decode a message that must fill the buffer."""
    message, end = decode_at(cls, buffer, version)
    # A message that ends early was read by another schema than it was written by: no field of it can be trusted.
    if end != len(buffer):
        raise ProtocolError(f"{cls.__name__} v{version}: {len(buffer) - end} bytes too many")
    return message


def encode_into(message: Message, version: int, output: Output) -> None:
    """Encode a message behind what the output has."""
    write = _writers.get((type(message), version)) or writer_of(type(message), version)
    try:
        write(message, output)
    except (struct.error, TypeError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"{type(message).__name__} v{version} cannot be encoded: {error}") from error


def encode_pausing(message: Message, version: int, output: Output) -> Generator[None, None, None]:
    """Encode a long message behind what the output has, stopping every now and then so that others can go on."""
    try:
        yield from pausing_writer_of(type(message), version)(message, output)
    except (struct.error, TypeError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"{type(message).__name__} v{version} cannot be encoded: {error}") from error


def encode(message: Message, version: int) -> list[Part]:
    """Encode a message as parts to send one after another."""
    output = Output()
    encode_into(message, version, output)
    return output.finish()


def encode_bytes(message: Message, version: int) -> bytes:
    """Encode a message that holds no file payload as plain bytes."""
    return b"".join(part for part in encode(message, version) if isinstance(part, (bytes, bytearray, memoryview)))


def size_of(parts: Sequence[Part]) -> int:
    """How many bytes these parts put on the wire."""
    return sum(len(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.size_bytes for part in parts)
