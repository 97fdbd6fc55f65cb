"""`semel cluster`: start, list, stop and break Kafka clusters on this machine.

`start` runs in the foreground until Ctrl-C and prints the bootstrap addresses on stdout; with `--detach` it returns
when the cluster is up. The engine is the embedded cluster, or Apache Kafka from its jars. The verbs that break and mend
a running cluster are in cluster_faults.py.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from semel.cli import cluster_faults
from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json, render_table
from semel.errors import ConfigError, EnvironmentFailure

if TYPE_CHECKING:
    from semel.engine.apache import ApacheCluster
    from semel.engine.control import Control
    from semel.engine.embedded import Cluster
    from semel.engine.running import Running

DETACH_S_MAX = 120.0
POLL_S = 0.02
SETTING_EXAMPLE = "--set auto.create.topics.enable=false"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="start|status|stop|kill|pause|…")
    start = verbs.add_parser("start", help="start a cluster and run it until Ctrl-C")
    start.add_argument("--engine", choices=["embedded", "apache"], default="embedded", help="default: embedded")
    start.add_argument("--brokers", type=int, default=3, metavar="N", help="how many brokers (default 3)")
    start.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    start.add_argument("--advertise", metavar="HOST", help="name or address that clients are told (default: --host)")
    start.add_argument("--port", type=int, default=9092, help="the first broker's port, the others follow; 0: any free")
    start.add_argument("--data", type=Path, metavar="DIR", help="keep the logs here (default: a temporary folder)")
    start.add_argument("--topics", nargs="*", default=[], metavar="NAME:PARTITIONS:REPLICAS", help="topics to create")
    start.add_argument("--flush", choices=["os", "interval", "every"], default="os", help="when to sync to the disk")
    start.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help=f"broker setting: {SETTING_EXAMPLE}"
    )
    start.add_argument("--detach", action="store_true", help="return when the cluster is up")
    status = verbs.add_parser("status", help="list the clusters that run here")
    stop = verbs.add_parser("stop", help="stop a cluster")
    for verb in (start, status, stop):
        verb.add_argument("--name", default="default" if verb is not status else None, help="name of the cluster")
        add_format(verb)
    cluster_faults.configure(verbs)


def run(options: argparse.Namespace) -> ExitCode:
    """Do what the verb says."""
    match options.verb:
        case "start":
            return _start_detached(options) if options.detach else _start(options)
        case "status":
            return _status(options)
        case "stop":
            return _stop(options)
        case _:
            return cluster_faults.run(options)


def _settings(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise ConfigError(f"{pair!r} is not a setting", you_want=SETTING_EXAMPLE)
    return dict(pair.split("=", 1) for pair in pairs)


def _start(options: argparse.Namespace) -> ExitCode:
    from semel.engine.running import Claim, Running
    from semel.world.clock import RealClock

    claim = Claim(options.name)
    try:
        with _stopping_signals() as stopped, _cluster(options) as cluster, _controlled(cluster) as control:
            running = Running(
                name=options.name,
                engine=options.engine,
                bootstrap=cluster.bootstrap,
                brokers=options.brokers,
                data=str(cluster.data),
                pid=os.getpid(),
                started_ms=RealClock().wall_ms(),
                control_port=control.port if control is not None else 0,
                token=control.token if control is not None else "",
            )
            claim.publish(running)
            _tell(options, running)
            stopped.wait()
            narrate("stopping")
    finally:
        claim.release()
    return ExitCode.HELD


def _cluster(options: argparse.Namespace) -> "Cluster | ApacheCluster":
    if options.engine == "apache":
        from semel.engine.apache import ApacheCluster

        return ApacheCluster(brokers=options.brokers, data=options.data, config=_settings(options.set))
    from semel.engine.embedded import Cluster

    return Cluster(
        brokers=options.brokers,
        host=options.host,
        advertised_host=options.advertise,
        port=options.port,
        data=options.data,
        topics=options.topics,
        flush=options.flush,
        config=_settings(options.set),
    )


@contextmanager
def _controlled(cluster: "Cluster | ApacheCluster") -> "Iterator[Control | None]":
    """A control socket for as long as the cluster runs, where it can have one."""
    from semel.engine.embedded import Cluster

    if not isinstance(cluster, Cluster):
        yield None
        return
    from semel.engine.control import Control

    control = Control(cluster)
    try:
        yield control
    finally:
        control.close()


def _tell(options: argparse.Namespace, running: "Running") -> None:
    if options.format == Format.JSON:
        _print_all([running])
    else:
        print(running.bootstrap, flush=True)
    kept = "kept" if options.data else "removed at the end"
    narrate(f"{running.engine} cluster {running.name!r}: {running.brokers} brokers, data in {running.data} ({kept})")
    narrate("Ctrl-C stops it")


@contextmanager
def _stopping_signals() -> Iterator[threading.Event]:
    """Turn SIGINT and SIGTERM into an event, so that everything stops in order."""
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _start_detached(options: argparse.Namespace) -> ExitCode:
    from semel.engine.running import find

    if find(options.name) is not None:
        raise EnvironmentFailure(f"a cluster named {options.name!r} runs already", next_command="semel cluster status")
    arguments = [argument for argument in sys.argv[1:] if argument != "--detach"]
    log_file = _log_file(options.name)
    with log_file.open("w") as output:
        child = subprocess.Popen(  # noqa: S603  (ourselves, with the same arguments)
            [sys.executable, "-m", "semel", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + DETACH_S_MAX
    while (running := find(options.name)) is None:
        if child.poll() is not None or time.monotonic() > deadline:
            child.kill()
            raise EnvironmentFailure("the cluster did not start", because=log_file.read_text().strip())
        time.sleep(POLL_S)
    if options.format == Format.JSON:
        _print_all([running])
    else:
        print(running.bootstrap)
    narrate(
        f"cluster {running.name!r} runs (pid {running.pid}); stop it with: semel cluster stop --name {running.name}"
    )
    return ExitCode.HELD


def _log_file(name: str) -> Path:
    from semel.engine.cache import cache_folder

    folder = cache_folder() / "clusters"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.log"


def _status(options: argparse.Namespace) -> ExitCode:
    from semel.engine.running import find, find_all

    found = find_all() if options.name is None else [one for one in [find(options.name)] if one is not None]
    if options.format == Format.JSON:
        _print_all(found)
    elif found:
        rows = [[one.name, one.engine, str(one.brokers), one.bootstrap, str(one.pid), one.data] for one in found]
        print(render_table(["name", "engine", "brokers", "bootstrap", "pid", "data"], rows))
    else:
        narrate("no cluster runs; start one with: semel cluster start")
    return ExitCode.HELD


def _print_all(found: list["Running"]) -> None:
    print_json({"schema": 1, "clusters": [one.shown() for one in found]})
    sys.stdout.flush()


def _stop(options: argparse.Namespace) -> ExitCode:
    from semel.engine.running import find, stop

    running = find(options.name)
    if running is None:
        raise EnvironmentFailure(f"no cluster named {options.name!r} runs", next_command="semel cluster status")
    stop(running)
    narrate(f"cluster {running.name!r} stopped")
    return ExitCode.HELD
