"""A small blocking Kafka client for tests: sends any message in any version, says nothing of its own accord.

    with Wire.to_group(cluster, "readers") as wire:
        answer = wire.ask(HeartbeatRequest(group_id="readers"), HeartbeatResponse, version=3)

`post` and `receive` take an exchange apart, for answers that come late.
"""

from __future__ import annotations

import socket
from struct import Struct
from types import TracebackType
from typing import Self, TypeVar

from semel.engine.embedded import Cluster
from semel.protocol.message import Message, decode, encode_bytes
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

CLIENT_ID = "wire"
API_VERSIONS_KEY = 18
WAIT_S_MAX = 30.0
_LENGTH = Struct(">i")
_HEAD = Struct(">hhih")

M = TypeVar("M", bound=Message)


class Wire:
    """One connection to one broker."""

    def __init__(self, host: str, port: int) -> None:
        """Connect."""
        self._socket = socket.create_connection((host, port), timeout=WAIT_S_MAX)
        self._correlation_id = 0

    @classmethod
    def to_broker(cls, cluster: Cluster, broker_id: int = 1) -> Self:
        """Connect to one broker of a cluster."""
        node = next(node for node in cluster.core.nodes if node.id == broker_id)
        return cls(node.host, node.port)

    @classmethod
    def to_leader(cls, cluster: Cluster, topic: str, partition: int = 0) -> Self:
        """Connect to the leader of a partition."""
        return cls.to_broker(cluster, cluster.core.controller.state.topics[topic].partitions[partition].leader)

    @classmethod
    def to_group(cls, cluster: Cluster, group_id: str) -> Self:
        """Connect to the coordinator of a group."""
        with cls.to_broker(cluster) as any_broker:
            found = any_broker.ask(FindCoordinatorRequest(coordinator_keys=[group_id]), FindCoordinatorResponse)
        row = found.coordinators[0]
        assert row.error_code == 0, row
        return cls(row.host, row.port)

    def ask(self, request: Message, response: type[M], *, version: int | None = None) -> M:
        """Send a request and wait for its answer; without a version, in the newest."""
        self.post(request, version=version)
        return self.receive(response, version=version)

    def post(self, request: Message, *, version: int | None = None) -> None:
        """Send a request and do not wait."""
        version = request.LAST if version is None else version
        client_id = CLIENT_ID.encode()
        head = _HEAD.pack(request.API_KEY, version, self._correlation_id, len(client_id)) + client_id
        tags = b"\0" if version >= request.FLEXIBLE_FROM else b""
        frame = head + tags + encode_bytes(request, version)
        self._socket.sendall(_LENGTH.pack(len(frame)) + frame)

    def receive(self, response: type[M], *, version: int | None = None) -> M:
        """Wait for the answer to the oldest request that has none."""
        version = response.LAST if version is None else version
        frame = self._read(_LENGTH.unpack(self._read(_LENGTH.size))[0])
        assert _LENGTH.unpack(frame[:4]) == (self._correlation_id,)
        has_tags = version >= response.FLEXIBLE_FROM and response.API_KEY != API_VERSIONS_KEY
        return decode(response, frame[5 if has_tags else 4 :], version)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return data

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        """Use with `with`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
