"""The network of the machine: listening and connecting, TCP or TLS. Connections are in real_connection.py.

Keeps: connecting, handshakes and closing each have a limit in time.
"""

import asyncio
import contextlib
import errno
import ssl

from semel.errors import EnvironmentFailure
from semel.world.handshakes import TlsServer
from semel.world.network import CLOSE_GRACE_MS, CONNECTIONS_MAX, Serve, check_port, not_connected
from semel.world.open_files import descriptors_max
from semel.world.ports import free_ports
from semel.world.real_connection import RealConnection
from semel.world.serving import ConnectionLimit, ConnectionTasks

BACKLOG_CONNECTIONS = 1024
UNBIND_S_MAX = 1.0
PORTS_TRIED_MAX = 10
SHARE_OF_DESCRIPTORS = 2  # half of what the process may open; logs and everybody else need some as well

_limit = ConnectionLimit(lambda: descriptors_max() // SHARE_OF_DESCRIPTORS)


class RealListener:
    """A listening socket and the connections it brought."""

    def __init__(self, server: asyncio.Server | TlsServer, tasks: ConnectionTasks) -> None:
        """Both are running already."""
        self._server = server
        self._tasks = tasks
        address = server.sockets[0].getsockname()
        self.host: str = address[0]
        self.port: int = address[1]

    async def close(self, *, grace_ms: float = CLOSE_GRACE_MS) -> None:
        """Accept no more, close every connection and end its task."""
        self._server.close()
        await self._tasks.close(grace_ms=grace_ms)
        # The port is free again only when this returns; a TLS handshake under way could keep it waiting.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), UNBIND_S_MAX)


class RealNetwork:
    """TCP and TLS on this machine."""

    async def listen(
        self,
        host: str,
        port: int,
        serve: Serve,
        *,
        frame_bytes_max: int,
        ssl_context: ssl.SSLContext | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> RealListener:
        """Run `serve` for each connection, then close it; port 0 means any that it can have again after a restart."""
        check_port(port)
        tasks = ConnectionTasks(serve, connections_max=connections_max, limit=_limit)
        for left in reversed(range(1 if port else PORTS_TRIED_MAX)):
            try:
                server = await self._bind(host, port or free_ports(1)[0], tasks, frame_bytes_max, ssl_context)
            except OSError as error:
                # Between looking for a free port and binding it, somebody else may take it.
                if left == 0 or error.errno != errno.EADDRINUSE:
                    raise EnvironmentFailure(f"cannot listen on {host}:{port}", because=str(error)) from error
            else:
                break
        return RealListener(server, tasks)

    async def _bind(
        self, host: str, port: int, tasks: ConnectionTasks, frame_bytes_max: int, ssl_context: ssl.SSLContext | None
    ) -> asyncio.Server | TlsServer:
        if ssl_context is not None:
            return await TlsServer.start(host, port, ssl_context, tasks, frame_bytes_max, BACKLOG_CONNECTIONS)
        return await asyncio.get_running_loop().create_server(
            lambda: RealConnection(frame_bytes_max=frame_bytes_max, on_made=tasks.admit),
            host,
            port,
            backlog=BACKLOG_CONNECTIONS,
        )

    async def connect(
        self,
        host: str,
        port: int,
        *,
        frame_bytes_max: int,
        timeout_ms: float,
        ssl_context: ssl.SSLContext | None = None,
    ) -> RealConnection:
        """Connect within the time, or raise ConnectionFailure."""
        check_port(port)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: RealConnection(frame_bytes_max=frame_bytes_max), host, port, ssl=ssl_context
                )
        except TimeoutError as error:
            raise not_connected(host, port, f"no answer within {timeout_ms:.0f} ms") from error
        except OSError as error:
            raise not_connected(host, port, str(error)) from error
        return connection
