"""One script's conversation with one cluster: what is asked here is asked of the other cluster as well, and compared.

    talk.ask("a group that nobody knows", HeartbeatRequest(group_id=…), HeartbeatResponse)      newest common version
    talk.each_version("unknown topic", MetadataResponse, lambda version: MetadataRequest(…))    every common version

Every answer becomes a step of the recording. `peek` asks without recording: to wait until a change has arrived
everywhere in a cluster, and to learn ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import TypeVar

from semel.protocol.message import Message
from tests.differential.plain import Normaliser, Plain
from tests.support.waiting import eventually
from tests.support.wire import Wire

M = TypeVar("M", bound=Message)
CLOSED = {"connection": "closed"}
MAIN = "main"
_LENGTH = Struct(">i")
_HEAD = Struct(">hhih")

Versions = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of one cluster."""

    name: str
    api: str
    answer: Plain


@dataclass(slots=True)
class Side:
    """One of the two clusters."""

    name: str
    host: str
    port: int


class RawWire(Wire):
    """A connection that also sends what no schema allows."""

    def ask_raw(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send these bytes as a request with the old header; the answer without its length."""
        frame = _HEAD.pack(api_key, version, self._correlation_id, -1) + body
        self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
        return self._read(_LENGTH.unpack(self._read(_LENGTH.size))[0])


@dataclass(slots=True)
class Talk:
    """A script's connections to one cluster, and the recording of its answers."""

    side: Side
    versions: Versions
    prefix: str
    steps: list[Step] = field(default_factory=list)
    _wires: dict[str, RawWire] = field(default_factory=dict)
    _posted: dict[str, tuple[str, int]] = field(default_factory=dict)
    _normaliser: Normaliser = field(init=False)

    def __post_init__(self) -> None:
        """Start to number ids."""
        self._normaliser = Normaliser(self.prefix)

    def name(self, text: str) -> str:
        """A name of a topic, group or transactional id that only this script uses."""
        return f"{self.prefix}{text}"

    def wire(self, on: str = MAIN) -> RawWire:
        """The connection with this label, made when first asked for."""
        if on not in self._wires:
            self._wires[on] = RawWire(self.side.host, self.side.port)
        return self._wires[on]

    def common(self, message: type[Message]) -> range:
        """The versions of an API that both clusters serve."""
        first, last = self.versions[message.API_KEY]
        return range(max(first, message.FIRST), min(last, message.LAST) + 1)

    def ask(self, name: str, request: Message, response: type[M], *, version: int | None = None, on: str = MAIN) -> M:
        """Ask, and record the answer as a step; a connection that is cut is an answer too."""
        asked = self.common(response)[-1] if version is None else version
        step = f"{name} v{asked}"
        try:
            answer = self.wire(on).ask(request, response, version=asked)
        except ConnectionError:
            self.hang_up(on)
            self.record(step, response, CLOSED)
            return response()
        self.record(step, response, self._normaliser.plain(answer, asked))
        return answer

    def each_version(self, name: str, response: type[M], request: Message | Callable[[int], Message]) -> None:
        """Ask the same in every version that both clusters serve; a function may make one request for each."""
        for version in self.common(response):
            asked = request if isinstance(request, Message) else request(version)
            self.ask(name, asked, response, version=version)

    def post(self, name: str, request: Message, *, version: int | None = None, on: str = MAIN) -> None:
        """Ask without waiting; `receive` on the same connection records the answer."""
        asked = self.common(type(request))[-1] if version is None else version
        self._posted[on] = (f"{name} v{asked}", asked)
        self.wire(on).post(request, version=asked)

    def receive(self, response: type[M], *, on: str = MAIN) -> M:
        """Wait for the answer to what was posted."""
        step, version = self._posted.pop(on)
        answer = self.wire(on).receive(response, version=version)
        self.record(step, response, self._normaliser.plain(answer, version))
        return answer

    def peek(self, request: Message, response: type[M], *, version: int | None = None) -> M:
        """Ask without recording."""
        asked = self.common(response)[-1] if version is None else version
        return self.wire("peek").ask(request, response, version=asked)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a change has arrived."""
        eventually(condition, what=f"{what} on {self.side.name}")

    def record(self, step: str, response: type[Message], answer: Plain) -> None:
        """Keep an answer as a step."""
        self.steps.append(Step(step, response.__name__.removesuffix("Response"), answer))

    def hang_up(self, on: str = MAIN) -> None:
        """Close one connection; the next use opens it again."""
        wire = self._wires.pop(on, None)
        if wire is not None:
            wire.close()

    def close(self) -> None:
        """Close every connection."""
        for on in list(self._wires):
            self.hang_up(on)
