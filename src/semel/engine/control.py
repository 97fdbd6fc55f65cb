"""The control socket of a running embedded cluster: JSON lines on loopback, each with the token of its run file.

Keeps: F4 nobody who cannot read the run file (mode 0600) can make the cluster do anything; a wrong token is compared in
       constant time. A peer that says nothing, too much or nonsense costs one connection for a short time.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
from typing import TYPE_CHECKING

from semel.engine.control_verbs import do
from semel.errors import ConfigError, ConnectionFailure, EnvironmentFailure, Outcome, SemelError
from semel.world.rng import RealRng

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore
    from semel.engine.embedded import Cluster
    from semel.engine.running import Running

log = logging.getLogger("semel.engine")

LOOPBACK = "127.0.0.1"
LINE_BYTES_MAX = 1 << 16
LINE_S_MAX = 10.0
CONNECTIONS_MAX = 16
# A broker that is started again opens all of its logs before it answers.
ASK_S_MAX = 60.0
TOKEN_BYTES = 32


class Control:
    """Listens on the cluster's own loop until it is closed."""

    def __init__(self, cluster: Cluster) -> None:
        """Listen on any free port of the loopback address."""
        self._cluster = cluster
        self._connections = 0
        self.token = RealRng().token_bytes(TOKEN_BYTES).hex()
        self._server = cluster.run(self._listen)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _listen(self, _: ClusterCore) -> asyncio.Server:
        return await asyncio.start_server(self._serve, LOOPBACK, 0, limit=LINE_BYTES_MAX)

    def close(self) -> None:
        """Accept no more."""

        async def close(_: ClusterCore) -> None:
            self._server.close()

        self._cluster.run(close)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            # Anybody on this machine can connect and say nothing, so connections have a limit.
            if self._connections <= CONNECTIONS_MAX:
                async with asyncio.timeout(LINE_S_MAX):
                    line = await reader.readline()
                answer = await self._answer(line)
                writer.write(json.dumps(answer).encode() + b"\n")
                async with asyncio.timeout(LINE_S_MAX):
                    await writer.drain()
        except (TimeoutError, ValueError, ConnectionError) as error:  # ValueError: the line is longer than the limit
            log.info("control: a connection was given up: %s", str(error) or "nothing came")
        finally:
            self._connections -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, line: bytes) -> dict[str, object]:
        try:
            asked = json.loads(line)
        except ValueError:
            return _refusal("the request is not a line of JSON")
        if not isinstance(asked, dict):
            return _refusal("the request is not a JSON object")
        # As bytes: a text that is not ASCII cannot be compared in constant time, and would raise.
        if not hmac.compare_digest(str(asked.get("token")).encode(), self.token.encode()):
            log.warning("control: a request with a wrong token was refused")
            return _refusal("the token is wrong")
        return await self._do(asked.get("verb"), asked.get("arguments"))

    async def _do(self, verb: object, arguments: object) -> dict[str, object]:
        try:
            told = await do(self._cluster.core, verb, arguments)
        except ConfigError as error:
            return _refusal(error.summary, you_want=error.you_want, because=error.because)
        except SemelError as error:
            return _refusal(error.summary, you_want=error.you_want, because=error.because, was_sensible=True)
        # A verb that fails in a way nobody thought of must not end the cluster that others are using.
        except Exception as error:
            log.exception("control: %s failed", verb)
            return _refusal(f"{verb} failed: {error}", was_sensible=True)
        # After it was done, and never with the token.
        log.info("control: %s %s", verb, arguments)
        return {"ok": True} if told is None else {"ok": True, "told": told}


def _refusal(error: str, *, you_want: str = "", because: str = "", was_sensible: bool = False) -> dict[str, object]:
    """`was_sensible`: what was asked for could be done, only not by this cluster as it is now."""
    return {"ok": False, "error": error, "you_want": you_want, "because": because, "was_sensible": was_sensible}


def ask(running: Running, verb: str, arguments: dict[str, object], seconds_max: float = ASK_S_MAX) -> object:
    """Ask a cluster of another process to do something; ConfigError or EnvironmentFailure when it refuses.

    Returns what it tells, which for most verbs is nothing.
    """
    if not running.control_port:
        raise ConfigError(
            f"the cluster {running.name!r} cannot be asked to {verb}",
            because=f"only embedded clusters have a control socket, this one is {running.engine}",
        )
    request: dict[str, object] = {"token": running.token, "verb": verb, "arguments": arguments}
    answer = asyncio.run(_exchange(running, request, seconds_max))
    if not answer.get("ok"):
        refused = EnvironmentFailure if answer.get("was_sensible") else ConfigError
        raise refused(
            str(answer.get("error")), you_want=str(answer.get("you_want", "")), because=str(answer.get("because", ""))
        )
    return answer.get("told")


async def _exchange(running: Running, request: dict[str, object], seconds_max: float) -> dict[str, object]:
    try:
        async with asyncio.timeout(seconds_max):
            reader, writer = await asyncio.open_connection(LOOPBACK, running.control_port, limit=LINE_BYTES_MAX)
            with contextlib.closing(writer):
                writer.write(json.dumps(request).encode() + b"\n")
                line = await reader.readline()
    except TimeoutError:
        raise ConnectionFailure(
            f"the cluster {running.name!r} did not answer within {seconds_max:.0f} s", outcome=Outcome.UNKNOWN
        ) from None
    except OSError as error:
        raise EnvironmentFailure(f"the cluster {running.name!r} cannot be reached", because=str(error)) from None
    try:
        answer = json.loads(line)
    except ValueError:
        raise ConnectionFailure(f"the cluster {running.name!r} ended before it answered") from None
    return answer if isinstance(answer, dict) else {}
