"""Where the same scenario plays: the real network on asyncio and on uvloop, and the virtual one."""

import asyncio
import ssl
import struct
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import uvloop

from semel.world import (
    Clock,
    Connection,
    Listener,
    Network,
    RealClock,
    RealNetwork,
    SeededRng,
    VirtualClock,
    VirtualNetwork,
)
from semel.world.frames import FrameReader
from semel.world.loop import VirtualLoop, run_virtual
from semel.world.network import Serve

FRAME_BYTES_MAX = 32 << 20
SCENARIO_S_MAX = 60
STAGES = ("asyncio", "uvloop", "virtual")


@dataclass
class Scene:
    """A network seen from two places, and the errors that reached the loop."""

    server: Network
    client: Network
    host: str
    clock: Clock
    loop_errors: list[dict[str, Any]] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    listeners: list[Listener] = field(default_factory=list)

    async def listen(
        self, serve: Serve, connections_max: int = 100, ssl_context: ssl.SSLContext | None = None
    ) -> Listener:
        """Listen on any port of the server; closed when the scenario ends."""
        listener = await self.server.listen(
            self.host,
            0,
            serve,
            frame_bytes_max=FRAME_BYTES_MAX,
            ssl_context=ssl_context,
            connections_max=connections_max,
        )
        self.listeners.append(listener)
        return listener

    async def connect(self, listener: Listener) -> Connection:
        """Connect from the client; closed when the scenario ends."""
        connection = await self.client.connect(
            self.host, listener.port, frame_bytes_max=FRAME_BYTES_MAX, timeout_ms=5000
        )
        self.connections.append(connection)
        return connection

    async def close(self) -> None:
        """Leave nothing open, also after a failure: uvloop cannot end over an open listener."""
        for listener in self.listeners:
            await listener.close(grace_ms=0)
        for connection in self.connections:
            connection.abort()
            await connection.wait_lost()  # type: ignore[attr-defined]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that must become true; the scenario's limit ends a wait in vain."""
        while not condition():
            await self.clock.sleep_ms(1)


Scenario = Callable[[Scene], Coroutine[Any, Any, None]]


def play(stage: str, scenario: Scenario) -> None:
    """Run the scenario there; nothing may reach the loop's exception hook."""
    if stage == "virtual":
        run_virtual(7, lambda loop: _watched(scenario, _virtual_scene(loop)))
        return
    make_loop = uvloop.new_event_loop if stage == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=make_loop) as runner:
        network = RealNetwork()
        runner.run(_watched(scenario, Scene(network, network, "127.0.0.1", RealClock())))


def _virtual_scene(loop: VirtualLoop) -> Scene:
    network = VirtualNetwork(loop, SeededRng(loop.seed).fork("network"))
    return Scene(network.host("server"), network.host("client"), "server", VirtualClock(loop))


async def _watched(scenario: Scenario, scene: Scene) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: scene.loop_errors.append(context))
    # pytest's own limit cannot interrupt uvloop; in virtual time a wait in vain is found without a timer.
    limit_s = None if isinstance(loop, VirtualLoop) else SCENARIO_S_MAX
    try:
        async with asyncio.timeout(limit_s):
            await scenario(scene)
    finally:
        await scene.close()
    assert scene.loop_errors == []


def framed(body: bytes) -> bytes:
    """Put the length before the body."""
    return struct.pack(">i", len(body)) + body


async def read(connection: Connection | FrameReader) -> bytes | None:
    """Read a frame as bytes."""
    frame = await connection.read_frame()
    return None if frame is None else bytes(frame)


async def echo(connection: Connection) -> None:
    """Answer every frame with itself."""
    while (frame := await connection.read_frame()) is not None:
        connection.write(struct.pack(">i", len(frame)), frame)
        await connection.drain()


class Collector:
    """Serves connections by keeping their frames, and how each ended."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.endings: asyncio.Queue[object] = asyncio.Queue()

    async def serve(self, connection: Connection) -> None:
        """Read to the end and note it."""
        try:
            while (frame := await connection.read_frame()) is not None:
                self.frames.append(bytes(frame))
        except Exception as error:
            self.endings.put_nowait(error)
            raise
        self.endings.put_nowait(None)
