"""`ApacheCluster`: Apache Kafka from its own jars, one JVM per node (KRaft), on loopback ports of this machine.

    with ApacheCluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})

The jars are fetched once into the cache folder. Data and server logs live in a temporary folder, or in `data`, where
`node-1/server.log` is what to read when a node does not start.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from semel.broker.cluster_settings import TopicSpec
from semel.engine.apache_setup import count_brokers, create_topics, refuse_misspelt_settings
from semel.engine.child_guard import ChildGuard
from semel.engine.jars import KAFKA_BROKER, STDERR_LOG, class_path
from semel.engine.java import find_java
from semel.errors import ConfigError, ConnectionFailure, EnvironmentFailure, ProtocolError
from semel.wire.cluster import WireCluster
from semel.wire.settings import WireSettings
from semel.world.ports import LOOPBACK, free_ports

# Five JVMs on two cores take their time.
START_S_MAX = 90.0
STOP_S_MAX = 30.0
FORMAT_S_MAX = 60.0
PAUSE_S_MAX = 30.0
POLL_S, PAUSE_POLL_S = 0.1, 0.002
PORT_MAX = 65_535
META_FILE = "logs/meta.properties"
SHOWN_LINES_MAX = 15
# Each is a JVM with a heap of its own, and all run on this machine.
NODES_MAX = 5
JVM_OPTIONS = ("-XX:+UseG1GC", "-Xshare:auto", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


@dataclass(slots=True, kw_only=True)
class ApacheNode:
    """One JVM: broker and controller together."""

    id: int
    port: int
    controller_port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    guard: ChildGuard | None = None

    @property
    def log_file(self) -> Path:
        """What the JVM prints."""
        return self.folder / "server.log"

    def log_tail(self) -> str:
        """The last lines it printed."""
        if not self.log_file.exists():
            return ""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-SHOWN_LINES_MAX:])


def _is_stopped(pid: int) -> bool:
    """Whether all threads of a child have stopped; what is seen stays there to be seen again."""
    return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None


class ApacheCluster:
    """A cluster of Apache Kafka nodes; the same methods as `semel.Cluster` where both can do a thing."""

    def __init__(
        self,
        *,
        brokers: int = 1,
        port: int = 0,
        topics: Sequence[TopicSpec] = (),
        data: Path | str | None = None,
        config: Mapping[str, str] | None = None,
        heap_mb: int = 512,
    ) -> None:
        """`config` goes into every node's server.properties; `port` is the first node's, 0 means any free ports."""
        if not 1 <= brokers <= NODES_MAX:
            raise ConfigError(f"brokers={brokers}: 1 to {NODES_MAX} nodes can be started here")
        if not 0 <= port <= PORT_MAX - brokers + 1:
            raise ConfigError(f"port={port} leaves no room for {brokers} nodes", you_want="0 to 65535")
        self._temporary = data is None
        self.data = Path(tempfile.mkdtemp(prefix="semel-apache-")) if data is None else Path(data).resolve()
        self._config = dict(config or {})
        self._topics = tuple(topics)
        self._heap_mb = heap_mb
        free = free_ports(2 * brokers)
        ports = list(range(port, port + brokers)) if port else free[:brokers]
        # A port that the user chose may be among the free ones.
        quorum_ports = [each for each in free if each not in ports][:brokers]
        self.nodes = [
            ApacheNode(id=number, port=own, controller_port=quorum_port, folder=self.data / f"node-{number}")
            for number, (own, quorum_port) in enumerate(zip(ports, quorum_ports, strict=True), start=1)
        ]

    @property
    def bootstrap(self) -> str:
        """Addresses for `bootstrap.servers`."""
        return ",".join(f"{LOOPBACK}:{node.port}" for node in self.nodes)

    @property
    def client_settings(self) -> dict[str, str]:
        """What a client sets to connect."""
        return {"bootstrap.servers": self.bootstrap, "security.protocol": "PLAINTEXT"}

    def start(self) -> Self:
        """Format the storage, start every node, wait until all of them know each other."""
        try:
            # As Kafka writes ids: base64 for URLs, without padding.
            cluster_id = self._kept_cluster_id() or base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            for node in self.nodes:
                self._format(node, cluster_id)
            for node in self.nodes:
                self.start_node(node.id)
            # After all were started: KRaft needs most of the nodes to elect a controller, so none is ready alone.
            self.wait_until_ready()
            self._set_up()
        except BaseException:
            self.stop()
            raise
        return self

    def _set_up(self) -> None:
        if not self._config and not self._topics:
            return
        options = {f"kafka.{name}": value for name, value in self.client_settings.items()}
        client = WireCluster(WireSettings.from_options(options))
        try:
            refuse_misspelt_settings(client, self.nodes[0].id, self._config)
            if self._topics:
                create_topics(client, self._topics)
        finally:
            client.close()

    def _java(self, *arguments: str) -> list[str]:
        options = (f"-Xmx{self._heap_mb}m", *JVM_OPTIONS)
        return [str(find_java().path), *options, "-cp", class_path(KAFKA_BROKER, STDERR_LOG), *arguments]

    def _kept_cluster_id(self) -> str:
        """The id of the cluster whose data is here; ConfigError when it had another number of nodes."""
        kept = sorted(self.data.glob(f"node-*/{META_FILE}"))
        if kept and {file.parts[-3] for file in kept} != {node.folder.name for node in self.nodes}:
            raise ConfigError(
                f"{self.data} has the data of {len(kept)} nodes",
                you_wrote=f"brokers={len(self.nodes)}",
                you_want=f"brokers={len(kept)}, or another folder",
                because="who votes is part of the data, and so are records that other nodes do not have",
            )
        found = re.search(r"^cluster\.id=(\S+)$", kept[0].read_text(), re.MULTILINE) if kept else None
        return found[1] if found else ""

    def _format(self, node: ApacheNode, cluster_id: str) -> None:
        node.folder.mkdir(parents=True, exist_ok=True)
        # Written at every start: ports and settings are those of this start, not of the one that made the folder.
        (node.folder / "server.properties").write_text(self._properties(node))
        # Formatting again would be refused, and with another cluster id the node would not start.
        if (node.folder / META_FILE).exists():
            return
        command = self._java(
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={cluster_id}",
            "-c",
            str(node.folder / "server.properties"),
        )
        ran = subprocess.run(  # noqa: S603  (our own command line)
            command, capture_output=True, text=True, timeout=FORMAT_S_MAX, check=False
        )
        if ran.returncode != 0:
            raise EnvironmentFailure("Apache Kafka's storage could not be formatted", because=ran.stderr.strip()[-500:])

    def _properties(self, node: ApacheNode) -> str:
        factor = str(min(3, len(self.nodes)))
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node.id),
            # Fixed: all nodes are known before the first of them starts.
            "controller.quorum.voters": ",".join(f"{n.id}@{LOOPBACK}:{n.controller_port}" for n in self.nodes),
            "listeners": f"PLAINTEXT://{LOOPBACK}:{node.port},CONTROLLER://{LOOPBACK}:{node.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(node.folder / "logs"),
            "offsets.topic.replication.factor": factor,
            # Not 50, as by default: each has files to open on every node, and more of them show nothing more.
            "offsets.topic.num.partitions": "8",
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.min.isr": "1" if factor == "1" else "2",
            "transaction.state.log.num.partitions": "8",
            "share.coordinator.state.topic.replication.factor": factor,
            "share.coordinator.state.topic.min.isr": "1",
            # 3 s otherwise, before the first member of any group is given its partitions.
            "group.initial.rebalance.delay.ms": "0",
            # 128 MiB otherwise, of a heap that has 512.
            "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
            **self._config,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def start_node(self, node_id: int) -> None:
        """Start one node; it keeps what it had on disk."""
        node = self._node(node_id)
        with node.log_file.open("ab") as output:
            node.process = self._spawn(node, output)
        node.guard = ChildGuard(node.process.pid)

    def _spawn(self, node: ApacheNode, output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  (our own command line)
            self._java("kafka.Kafka", str(node.folder / "server.properties")),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A process group of its own: signals reach all that it starts, and Ctrl-C at the terminal does not.
            start_new_session=True,
            env={**os.environ, "LOG_DIR": str(node.folder)},
        )

    def _node(self, node_id: int) -> ApacheNode:
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise ConfigError(f"there is no node {node_id}", you_want=", ".join(str(node.id) for node in self.nodes))

    def wait_until_ready(self, seconds_max: float = START_S_MAX) -> None:
        """Return when every running node sees all running nodes."""
        deadline = time.monotonic() + seconds_max
        running = [node for node in self.nodes if node.process is not None]
        for node in running:
            while not self._sees(node, len(running)):
                if time.monotonic() > deadline:
                    raise EnvironmentFailure(
                        f"Apache Kafka node {node.id} was not ready after {seconds_max:.0f} s", because=node.log_tail()
                    )
                time.sleep(POLL_S)

    def _sees(self, node: ApacheNode, count: int) -> bool:
        if node.process is not None and node.process.poll() is not None:
            raise EnvironmentFailure(
                f"Apache Kafka node {node.id} ended with {node.process.returncode}", because=node.log_tail()
            )
        try:
            return count_brokers(LOOPBACK, node.port, timeout_s=2.0) >= count
        # It has not opened its port yet, or another program has it for a moment.
        except (ConnectionFailure, ProtocolError):
            return False

    def kill_node(self, node_id: int) -> None:
        """Kill one node's JVM at once, as a machine that loses power."""
        self._end(self._node(node_id), signal.SIGKILL)

    def pause_node(self, node_id: int) -> None:
        """Stop one node's JVM from running, without ending it; it stands still when this returns.

        On a busy machine the other threads go on, and answer, until one of them has taken the signal.
        """
        node = self._node(node_id)
        if node.process is None:
            return
        self._signal(node, signal.SIGSTOP)
        deadline = time.monotonic() + PAUSE_S_MAX
        while node.process.poll() is None and not _is_stopped(node.process.pid):
            if time.monotonic() > deadline:
                raise EnvironmentFailure(f"Apache Kafka node {node_id} does not stand still after {PAUSE_S_MAX:g} s")
            time.sleep(PAUSE_POLL_S)

    def resume_node(self, node_id: int) -> None:
        """Let a paused node run again."""
        self._signal(self._node(node_id), signal.SIGCONT)

    def _signal(self, node: ApacheNode, number: signal.Signals) -> None:
        if node.process is not None and node.process.poll() is None:
            os.killpg(node.process.pid, number)

    def _end(self, node: ApacheNode, number: signal.Signals) -> None:
        if node.process is None:
            return
        self._signal(node, number)
        try:
            node.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._signal(node, signal.SIGKILL)
            node.process.wait(STOP_S_MAX)
        node.process = None
        if node.guard is not None:
            node.guard.release()
            node.guard = None

    def stop(self) -> None:
        """End every node; the temporary folder goes too."""
        for node in self.nodes:
            # A process that stands still takes no other signal than SIGKILL.
            self._signal(node, signal.SIGCONT)
            # A clean stop takes seconds and only matters to data that stays.
            self._end(node, signal.SIGKILL if self._temporary else signal.SIGTERM)
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()
