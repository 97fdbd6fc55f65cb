"""`semel.Cluster`: an embedded Kafka cluster in this process, for tests, drills and laptops.

    with semel.Cluster(brokers=3, topics=["orders:6:3"]) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})

The brokers run on their own event loop in one background thread, so code that blocks can talk to them. In async code
use `async with`. Without `data` the logs live in a temporary folder that is removed at the end.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from semel.broker.cluster import ClusterCore
from semel.broker.cluster_settings import ClusterSettings, TopicSpec
from semel.broker.log.config import FlushPolicy
from semel.broker.runtime.intercept import Action, Hook, Seen
from semel.engine.breaking import RUN_S_MAX, Breakable
from semel.engine.self_signed import TlsFiles
from semel.engine.tls import Security
from semel.errors import ConfigError, EnvironmentFailure
from semel.world.world import real_world

START_S_MAX = 60.0
STOP_S_MAX = 60.0
LOCK_FILE = ".lock"
TLS_FOLDER = "tls"

T = TypeVar("T")


class DataLock:
    """One cluster per data folder: two would destroy each other's logs."""

    def __init__(self, folder: Path) -> None:
        """Take the lock or raise."""
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            # A lock of the operating system ends with the process, so a crash leaves none behind.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise EnvironmentFailure(
                f"the data folder {folder} is in use by another cluster",
                because="two clusters on one folder would destroy each other's logs",
                next_command="semel cluster stop, or choose another --data",
            ) from None

    def release(self) -> None:
        """Let the folder go."""
        # Not left to closing: a process that was forked meanwhile has the same file open, and would keep the lock.
        fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)


class LoopThread:
    """An event loop in a background thread."""

    def __init__(self) -> None:
        """Start it."""
        import uvloop  # noqa: PLC0415  (only a running cluster needs it)

        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        # A daemon: a program that forgets to stop its cluster has to end all the same.
        self._thread = threading.Thread(target=self._run, name="semel-cluster", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, work: Coroutine[object, object, T], seconds_max: float) -> T:
        """Run a coroutine there and wait for its result."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(seconds_max)
        except concurrent.futures.TimeoutError:
            # It would go on there otherwise, with nobody to wait for it.
            future.cancel()
            raise EnvironmentFailure(f"the cluster did not answer within {seconds_max:.0f} s") from None

    def stop(self) -> None:
        """End the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        # A loop that still runs cannot be closed.
        self._thread.join(STOP_S_MAX)
        self.loop.close()


def _specs(topics: Sequence[str | TopicSpec]) -> tuple[TopicSpec, ...]:
    return tuple(TopicSpec.parse(topic) if isinstance(topic, str) else topic for topic in topics)


class Cluster(Breakable):
    """An embedded cluster; start it with `with` or `async with`, or with `start()` and `stop()`."""

    def __init__(
        self,
        *,
        brokers: int = 3,
        first_broker_id: int = 1,
        topics: Sequence[str | TopicSpec] = (),
        data: Path | str | None = None,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        port: int = 0,
        flush: FlushPolicy | str = FlushPolicy.OS,
        config: Mapping[str, str] | None = None,
        transaction_version: int = 2,
        security: Security | None = None,
    ) -> None:
        """Nothing is started yet; wrong settings are refused here."""
        self._temporary = data is None
        self._data = Path(data).resolve() if data is not None else None
        try:
            flush_policy = FlushPolicy(flush)
        except ValueError:
            raise ConfigError(f"flush={flush!r} is unknown", you_want=" | ".join(FlushPolicy)) from None
        self._settings = ClusterSettings(
            data=self._data or Path(),
            brokers=brokers,
            first_broker_id=first_broker_id,
            host=host,
            advertised_host=advertised_host,
            port=port,
            topics=_specs(topics),
            flush=flush_policy,
            config=dict(config or {}),
            transaction_version=transaction_version,
            credentials=security.credentials if security is not None else None,
        )
        self._security = security or Security()
        self._tls_files: TlsFiles | None = None
        self._lock: DataLock | None = None
        self._thread: LoopThread | None = None
        self._core: ClusterCore | None = None

    @property
    def core(self) -> ClusterCore:
        """The running cluster, to be touched on its own loop only."""
        if self._core is None:
            raise ConfigError("the cluster is not running", you_want="with semel.Cluster() as cluster: …")
        return self._core

    @property
    def bootstrap(self) -> str:
        """Addresses for `bootstrap.servers`."""
        return self.core.bootstrap

    @property
    def client_settings(self) -> dict[str, str]:
        """What a client sets to connect, by librdkafka's names; as the first of the users, when there are any."""
        return self.client_settings_of()

    def client_settings_of(self, user: str | None = None, mechanism: str | None = None) -> dict[str, str]:
        """The same for another user or SASL mechanism."""
        own = self._security.client_settings(self._tls_files, user=user, mechanism=mechanism)
        return {"bootstrap.servers": self.bootstrap} | own

    @property
    def data(self) -> Path:
        """Where the logs are."""
        return self.core.settings.data

    def start(self) -> Self:
        """Start the brokers in a background thread; returns when clients can connect."""
        self._prepare()
        self._thread = LoopThread()
        try:
            self._thread.call(self.core.start(), START_S_MAX)
        except BaseException:
            self._end_thread()
            self._clean_up()
            raise
        return self

    def _prepare(self) -> None:
        if self._core is not None:
            raise ConfigError("the cluster is already running")
        import dataclasses  # noqa: PLC0415

        folder = self._data or Path(tempfile.mkdtemp(prefix="semel-"))
        self._lock = DataLock(folder)
        try:
            settings = self._secured(dataclasses.replace(self._settings, data=folder))
        except BaseException:
            self._let_go(folder)
            raise
        # One for each broker and one for the controller, so that a fault of a disk or clock strikes one of them.
        worlds = [real_world() for _ in range(settings.brokers + 1)]
        self._core = ClusterCore(settings, worlds.__getitem__)

    def _secured(self, settings: ClusterSettings) -> ClusterSettings:
        tls = self._security.tls
        if tls is None:
            return settings
        import dataclasses  # noqa: PLC0415

        self._tls_files = tls.files(settings.data / TLS_FOLDER, settings.advertised_host or settings.host)
        return dataclasses.replace(settings, ssl_context=tls.server_context(self._tls_files))

    def stop(self) -> None:
        """Stop the brokers; stopping twice is fine."""
        if self._core is None:
            return
        try:
            if self._thread is not None:
                self._thread.call(self.core.stop(), STOP_S_MAX)
        finally:
            self._end_thread()
            self._clean_up()

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    def _clean_up(self) -> None:
        folder = self.core.settings.data
        self._core = None
        self._let_go(folder)

    def _let_go(self, folder: Path) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if self._temporary:
            shutil.rmtree(folder, ignore_errors=True)

    def intercept(
        self,
        api: int | str | None,
        action: Action,
        *,
        times: int | None = 1,
        where: Callable[[Seen], bool] | None = None,
    ) -> Hook:
        """Arm a fault hook for one API, such as `"Produce"`; see semel.broker.runtime.intercept for the actions."""
        return self._on_loop(lambda: self.core.intercept(api, action, times=times, where=where))

    def disarm(self, hook: Hook | None = None) -> None:
        """Remove a fault hook, or all of them; requests that it delays go on."""
        intercepts = self.core.intercepts
        self._on_loop(intercepts.clear if hook is None else lambda: intercepts.remove(hook))

    def _wait_dead(self, broker_id: int) -> None:
        if self._thread is not None:
            self._thread.call(self.core.wait_dead(broker_id), STOP_S_MAX)

    def run(self, work: Callable[[ClusterCore], Coroutine[object, object, T]], *, seconds_max: float = RUN_S_MAX) -> T:
        """Run a coroutine on the cluster's own loop, from the thread that started the cluster, and wait for it."""
        core = self.core
        if self._thread is None:
            raise ConfigError(
                "a cluster started with `async with` has no thread of its own to wait for",
                you_want="await the call: restart_async, kill_async, or what `core` has",
            )
        return self._thread.call(work(core), seconds_max)

    def _on_loop(self, function: Callable[[], T]) -> T:
        async def run() -> T:
            return function()

        if self._thread is None:
            return function()
        return self._thread.call(run(), START_S_MAX)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    async def __aenter__(self) -> Self:
        """Start on the running loop."""
        self._prepare()
        try:
            await self.core.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop on the running loop."""
        try:
            await self.core.stop()
        finally:
            self._clean_up()
