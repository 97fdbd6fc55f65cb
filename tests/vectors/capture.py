"""A broker that only takes notes: enough of the protocol for a producer to hand over its record batches.

librdkafka writes batches nowhere but to a connection. This server answers what a producer asks before and around
Produce (one topic, one partition, itself as leader and coordinator) and keeps every record set it is sent, byte for
byte. The bytes are put together by hand on purpose, at old fixed versions without tagged fields: the vectors must not
depend on semel's own message code.
"""

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from types import MappingProxyType, TracebackType
from typing import Self, TypeVar

Item = TypeVar("Item")

PRODUCER_ID = 4242
PRODUCER_EPOCH = 3
UNSUPPORTED_VERSION = 35
REQUEST_BYTES_MAX = 8 << 20

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 3, 10, 18, 22
ADD_PARTITIONS_TO_TXN, END_TXN = 24, 26
# Lowest and highest version per API key. Fetch is only named: librdkafka infers the batch format from it.
VERSIONS: Mapping[int, tuple[int, int]] = MappingProxyType(
    {
        PRODUCE: (7, 7),
        FETCH: (4, 11),
        METADATA: (4, 4),
        FIND_COORDINATOR: (1, 1),
        API_VERSIONS: (0, 0),
        INIT_PRODUCER_ID: (1, 1),
        ADD_PARTITIONS_TO_TXN: (0, 0),
        END_TXN: (1, 1),
    }
)

_INT8, _INT16, _INT32, _INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
_NO_THROTTLE = _INT32.pack(0)
_NO_ERROR = _INT16.pack(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSet:
    """What one Produce request carried for one partition."""

    topic: str
    partition: int
    transactional_id: str | None
    batches: bytes


class Reader:
    """The fields of a request, one after the other."""

    def __init__(self, data: bytes) -> None:
        """Start at the first byte."""
        self._data = data
        self._position = 0

    def number(self, kind: Struct) -> int:
        """Read one integer."""
        (value,) = kind.unpack(self._take(kind.size))
        return int(value)

    def text(self) -> str | None:
        """Read a string, or null."""
        size = self.number(_INT16)
        return None if size < 0 else self._take(size).decode()

    def blob(self) -> bytes:
        """Read bytes; null counts as none."""
        return self._take(max(0, self.number(_INT32)))

    def many(self, read_one: Callable[[], Item]) -> list[Item]:
        """Read a count and that many items."""
        return [read_one() for _ in range(self.number(_INT32))]

    def _take(self, size: int) -> bytes:
        taken = self._data[self._position : self._position + size]
        if len(taken) < size:
            raise ValueError("the request ends too early")
        self._position += size
        return taken


def text(value: str | None) -> bytes:
    """Write a string, or null."""
    return _INT16.pack(-1) if value is None else _INT16.pack(len(value.encode())) + value.encode()


def many(items: list[bytes]) -> bytes:
    """Write a count and the items."""
    return _INT32.pack(len(items)) + b"".join(items)


def api_versions(error: int) -> bytes:
    """Answer in version 0, which every client falls back to when it asked for a newer one and sees the error."""
    named = [_INT16.pack(key) + _INT16.pack(low) + _INT16.pack(high) for key, (low, high) in VERSIONS.items()]
    return _INT16.pack(error) + many(named)


class CaptureServer:
    """Listens on loopback while the `with` block runs; `record_sets` is what came."""

    def __init__(self) -> None:
        """Take a free port."""
        self.record_sets: list[RecordSet] = []
        self.errors: list[BaseException] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._answers: Mapping[int, Callable[[Reader], bytes]] = {
            PRODUCE: self._produce,
            METADATA: self._metadata,
            FIND_COORDINATOR: lambda _: _NO_THROTTLE + _NO_ERROR + text(None) + self._address(),
            INIT_PRODUCER_ID: lambda _: (
                _NO_THROTTLE + _NO_ERROR + _INT64.pack(PRODUCER_ID) + _INT16.pack(PRODUCER_EPOCH)
            ),
            ADD_PARTITIONS_TO_TXN: self._add_partitions,
            END_TXN: lambda _: _NO_THROTTLE + _NO_ERROR,
        }

    @property
    def bootstrap_servers(self) -> str:
        """What a client is told to connect to."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """Start to accept connections."""
        self._spawn(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hang up on everybody, wait for the threads, and pass on what went wrong in them."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):  # it may have hung up first
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)
        if self.errors:
            raise self.errors[0]

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as requests:
            try:
                while size := requests.read(4):
                    (size_bytes,) = _INT32.unpack(size)
                    assert size_bytes <= REQUEST_BYTES_MAX
                    answer = self._answer(requests.read(size_bytes))
                    connection.sendall(_INT32.pack(len(answer)) + answer)
            except OSError:
                return
            except Exception as error:  # noqa: BLE001 - raised again where the test waits
                self.errors.append(error)

    def _answer(self, request: bytes) -> bytes:
        reader = Reader(request)
        key, version, correlation_id = (reader.number(kind) for kind in (_INT16, _INT16, _INT32))
        if key == API_VERSIONS:
            body = api_versions(0 if version == 0 else UNSUPPORTED_VERSION)
        else:
            reader.text()  # client id
            assert VERSIONS[key][0] <= version <= VERSIONS[key][1], f"API key {key} version {version}"
            body = self._answers[key](reader)
        return _INT32.pack(correlation_id) + body

    def _address(self) -> bytes:
        return _INT32.pack(0) + text("127.0.0.1") + _INT32.pack(self.port)

    def _metadata(self, reader: Reader) -> bytes:
        topics = reader.many(reader.text)
        return b"".join(
            (
                _NO_THROTTLE,
                many([self._address() + text(None)]),
                text("capture"),
                _INT32.pack(0),
                many([_NO_ERROR + text(topic) + _INT8.pack(0) + many([_partition_metadata()]) for topic in topics]),
            )
        )

    def _produce(self, reader: Reader) -> bytes:
        transactional_id = reader.text()
        reader.number(_INT16)  # acks
        reader.number(_INT32)  # timeout
        return many(reader.many(lambda: self._keep_topic(reader, transactional_id))) + _NO_THROTTLE

    def _keep_topic(self, reader: Reader, transactional_id: str | None) -> bytes:
        topic = reader.text() or ""

        def keep_partition() -> bytes:
            partition, batches = reader.number(_INT32), reader.blob()
            kept = RecordSet(topic=topic, partition=partition, transactional_id=transactional_id, batches=batches)
            self.record_sets.append(kept)
            return _INT32.pack(partition) + _NO_ERROR + _INT64.pack(0) + _INT64.pack(-1) + _INT64.pack(0)

        return text(topic) + many(reader.many(keep_partition))

    def _add_partitions(self, reader: Reader) -> bytes:
        reader.text()  # transactional id
        reader.number(_INT64)  # producer id
        reader.number(_INT16)  # producer epoch
        return _NO_THROTTLE + many(reader.many(lambda: _added_topic(reader)))


def _added_topic(reader: Reader) -> bytes:
    name = text(reader.text())
    return name + many(reader.many(lambda: _INT32.pack(reader.number(_INT32)) + _NO_ERROR))


def _partition_metadata() -> bytes:
    """Describe partition 0: leader, replicas and in-sync replicas are broker 0."""
    return _NO_ERROR + _INT32.pack(0) + _INT32.pack(0) + many([_INT32.pack(0)]) + many([_INT32.pack(0)])
