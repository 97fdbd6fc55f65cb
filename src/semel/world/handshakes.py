"""Accepting TLS connections: each is counted from its first byte on, and its handshake has a limit in time.

Why: asyncio's own server tells of a TLS connection only when its handshake is done. A client that connects and says
     nothing would be in no count, and there could be as many of those as the process has descriptors.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Coroutine
from typing import Self

from semel.world.real_connection import RealConnection
from semel.world.serving import ConnectionTasks

# A client that is slower than this is none, or does not speak TLS.
HANDSHAKE_S_MAX = 10.0
WITHOUT_DESCRIPTORS_S = 0.1


class TlsServer:
    """A listening socket whose connections shake hands before they are served. Used as asyncio's server is."""

    def __init__(self, listening: socket.socket, tasks: ConnectionTasks) -> None:
        """Use `start`."""
        self.sockets = [listening]
        self._tasks = tasks
        self._under_way: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(  # noqa: PLR0917 - where, then what
        cls,
        host: str,
        port: int,
        context: ssl.SSLContext,
        tasks: ConnectionTasks,
        frame_bytes_max: int,
        backlog: int,
    ) -> Self:
        """Listen; OSError when that is not possible."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        try:
            # A broker that is restarted takes its old port, on which connections of its last life may still be closing.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(backlog)
        except OSError:
            listening.close()
            raise
        server = cls(listening, tasks)
        server._begin(server._accept(context, frame_bytes_max))
        return server

    def close(self) -> None:
        """Accept no more, and end the handshakes that are under way."""
        for task in self._under_way:
            task.cancel()

    async def wait_closed(self) -> None:
        """Return when the port is free."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _accept(self, context: ssl.SSLContext, frame_bytes_max: int) -> None:
        listening = self.sockets[0]
        with listening:
            while True:
                try:
                    accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
                except OSError:  # the process has no descriptor left, or the peer is gone already
                    await asyncio.sleep(WITHOUT_DESCRIPTORS_S)
                    continue
                # Counted before the handshake, and given back if that comes to nothing.
                if self._tasks.is_taken():
                    self._begin(self._shake_hands(accepted, context, frame_bytes_max))
                else:
                    accepted.close()

    async def _shake_hands(self, accepted: socket.socket, context: ssl.SSLContext, frame_bytes_max: int) -> None:
        is_served = False

        def serve(connection: RealConnection) -> None:
            nonlocal is_served
            is_served = True
            self._tasks.serve(connection)

        try:
            with contextlib.suppress(OSError):  # TLS errors, broken connections, the limit in time: there is no client
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: RealConnection(frame_bytes_max=frame_bytes_max, on_made=serve),
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=HANDSHAKE_S_MAX,
                )
        finally:
            if not is_served:
                self._tasks.given_up()
