"""A network in virtual time: hosts are names, delays and pieces follow from the seed, splits are made by hand.

Keeps: one seed, one order of arrival. A split loses nothing, since TCP would send it again once it heals; connecting
       across it runs into the time limit. `cut` resets a connection at both ends.
Limits: no TLS; there is no bandwidth, only delay.
"""

import asyncio
import ssl

from semel.errors import ConfigError, EnvironmentFailure
from semel.world.network import CLOSE_GRACE_MS, CONNECTIONS_MAX, Connection, Serve, check_port, not_connected
from semel.world.rng import Rng
from semel.world.serving import ConnectionTasks
from semel.world.virtual_connection import Pipe, VirtualConnection

# The first of those ports that are given to nobody for good.
ANY_PORT_FIRST = 49152
OWN_NAMES = ("", "0.0.0.0", "127.0.0.1", "localhost")  # noqa: S104 - only names here, nothing is bound


class VirtualNetwork:
    """All hosts and what lies between them; the latencies may be changed at any time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: Rng,
        *,
        latency_ms_min: float = 0.05,
        latency_ms_max: float = 2.0,
    ) -> None:
        """Each piece of data takes a time drawn between the two latencies."""
        self.latency_ms_min = latency_ms_min
        self.latency_ms_max = latency_ms_max
        self._loop = loop
        self._rng = rng
        self._listeners: dict[tuple[str, int], VirtualListener] = {}
        self._splits: set[tuple[str, str]] = set()
        self._held: dict[Pipe, None] = {}  # in the order they ran into a split
        self._healed = asyncio.Event()
        self._port_next = ANY_PORT_FIRST

    def host(self, name: str) -> "VirtualHost":
        """Give the network as seen from that host."""
        return VirtualHost(self, name)

    def split(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Let nothing pass from a to b, nor back unless `one_way`, until `heal`."""
        self._splits.add((a, b))
        if not one_way:
            self._splits.add((b, a))

    def heal(self) -> None:
        """End all splits; what waited goes on."""
        self._splits.clear()
        self._healed.set()
        # A new one for the next split: those who waited for the old one have been woken.
        self._healed = asyncio.Event()
        held, self._held = self._held, {}
        for pipe in held:
            pipe.pump()

    def cut(self, connection: Connection) -> None:
        """Reset a connection at both ends; what is under way is lost."""
        assert isinstance(connection, VirtualConnection), "only a virtual connection can be cut"
        connection.other_end.reset("it was cut")
        connection.reset("it was cut")

    def bind(self, listener: "VirtualListener") -> None:
        """Let clients connect to a listener."""
        place = (listener.host, listener.port)
        if place in self._listeners:
            raise EnvironmentFailure(f"cannot listen on {listener.host}:{listener.port}", because="it is in use")
        self._listeners[place] = listener

    def unbind(self, listener: "VirtualListener") -> None:
        """Refuse new connections to it."""
        if self._listeners.get((listener.host, listener.port)) is listener:
            del self._listeners[listener.host, listener.port]

    async def dial(self, source: str, target: str, port: int) -> "VirtualListener":
        """Wait for one round trip, and for the end of a split if there is one; OSError when nobody listens."""
        # Either direction: a handshake needs both. In a loop, since another split may come before this task runs.
        while {(source, target), (target, source)} & self._splits:
            await self._healed.wait()
        await asyncio.sleep((self._draw_latency_ms() + self._draw_latency_ms()) / 1000)
        listener = self._listeners.get((target, port))
        if listener is None:
            raise ConnectionRefusedError(f"nobody listens on {target}:{port}")
        return listener

    def join(self, source: str, listener: "VirtualListener", *, frame_bytes_max: int) -> VirtualConnection:
        """Make both ends of a connection, hand the far one to the listener, give the near one."""
        there, back = self._pipe(source, listener.host), self._pipe(listener.host, source)
        near = VirtualConnection(
            peer=f"{listener.host}:{listener.port}", frame_bytes_max=frame_bytes_max, incoming=back, out=there
        )
        far = VirtualConnection(
            peer=f"{source}:{self.take_port()}", frame_bytes_max=listener.frame_bytes_max, incoming=there, out=back
        )
        listener.tasks.admit(far)
        return near

    def take_port(self) -> int:
        """Give a port that nobody had before."""
        self._port_next += 1
        return self._port_next - 1

    def _pipe(self, source: str, target: str) -> Pipe:
        def is_held(pipe: Pipe) -> bool:
            if (source, target) not in self._splits:
                return False
            # Asked for each piece that is due: what was sent before a split and has not arrived waits as well.
            self._held[pipe] = None
            return True

        return Pipe(self._loop, self._rng, draw_delay_ms=self._draw_latency_ms, is_held=is_held)

    def _draw_latency_ms(self) -> float:
        return self._rng.uniform(self.latency_ms_min, self.latency_ms_max)


class VirtualListener:
    """A port of a host and the connections it brought."""

    def __init__(
        self, network: VirtualNetwork, host: str, port: int, tasks: ConnectionTasks, *, frame_bytes_max: int
    ) -> None:
        """Clients cannot connect before the network binds it."""
        self._network = network
        self.host = host
        self.port = port
        self.tasks = tasks
        self.frame_bytes_max = frame_bytes_max

    async def close(self, *, grace_ms: float = CLOSE_GRACE_MS) -> None:
        """Accept no more, close every connection and end its task."""
        self._network.unbind(self)
        await self.tasks.close(grace_ms=grace_ms)


class VirtualHost:
    """The network as one host sees it."""

    def __init__(self, network: VirtualNetwork, name: str) -> None:
        """Hosts need no set-up; a name is enough."""
        self._network = network
        self.name = name

    async def listen(
        self,
        host: str,
        port: int,
        serve: Serve,
        *,
        frame_bytes_max: int,
        ssl_context: ssl.SSLContext | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> VirtualListener:
        """Run `serve` for each connection, then close it; port 0 means any."""
        _check(port, ssl_context)
        if self._resolve(host) != self.name:
            # As on a machine whose address it is not: a broker with a wrong `host` must not seem to work here.
            raise EnvironmentFailure(f"cannot listen on {host}:{port}", because=f"this host is {self.name!r}")
        tasks = ConnectionTasks(serve, connections_max=connections_max)
        listener = VirtualListener(
            self._network, self.name, port or self._network.take_port(), tasks, frame_bytes_max=frame_bytes_max
        )
        self._network.bind(listener)
        return listener

    async def connect(
        self,
        host: str,
        port: int,
        *,
        frame_bytes_max: int,
        timeout_ms: float,
        ssl_context: ssl.SSLContext | None = None,
    ) -> VirtualConnection:
        """Connect within the time, or raise ConnectionFailure."""
        _check(port, ssl_context)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                listener = await self._network.dial(self.name, self._resolve(host), port)
        except TimeoutError as error:
            raise not_connected(host, port, f"no answer within {timeout_ms:.0f} ms") from error
        except OSError as error:
            raise not_connected(host, port, str(error)) from error
        return self._network.join(self.name, listener, frame_bytes_max=frame_bytes_max)

    def _resolve(self, host: str) -> str:
        return self.name if host in OWN_NAMES else host


def _check(port: int, ssl_context: ssl.SSLContext | None) -> None:
    check_port(port)
    if ssl_context is not None:
        raise ConfigError("TLS has no virtual twin", because="its handshake draws randomness that no seed controls")
