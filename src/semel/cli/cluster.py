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
from typing import TYPE_CHECKING

from semel.cli import cluster_faults, cluster_options
from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json, render_table
from semel.errors import EnvironmentFailure, SemelError

if TYPE_CHECKING:
    from semel.engine.apache import ApacheCluster
    from semel.engine.control import Control
    from semel.engine.embedded import Cluster
    from semel.engine.running import Running

DETACH_S_MAX = 120.0
# A cluster that stands still must not keep the others from being listed.
STATES_S_MAX = 5.0
POLL_S = 0.02


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="start|status|stop|kill|pause|…")
    start = verbs.add_parser("start", help="start a cluster and run it until Ctrl-C")
    cluster_options.configure(start)
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


def _start(options: argparse.Namespace) -> ExitCode:
    from semel.cli.cluster_options import make_cluster
    from semel.engine.running import Claim, Running
    from semel.world.clock import RealClock

    # Before anything is started: of two starts with one name only one may come to open ports and folders.
    claim = Claim(options.name)
    try:
        with _stopping_signals() as stopped, make_cluster(options) as cluster, _controlled(cluster) as control:
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
                host=options.host or cluster_options.HOST,
                client_settings=_without_login(cluster.client_settings),
                knows_clients=options.sasl_users is not None or options.tls_client_auth == "required",
            )
            claim.publish(running)
            _tell(options, running)
            stopped.wait()
            narrate("stopping")
    finally:
        claim.release()
    return ExitCode.HELD


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
    _tell_security(running)
    narrate("Ctrl-C stops it")


def _without_login(settings: dict[str, str]) -> dict[str, str]:
    """What may stand in the run file, on the terminal and in a log."""
    secret = ("bootstrap.servers", "sasl.username", "sasl.password")
    return {name: value for name, value in settings.items() if name not in secret}


def _tell_security(running: "Running") -> None:
    if running.client_settings.get("security.protocol", "PLAINTEXT") != "PLAINTEXT":
        narrate("clients set " + ", ".join(f"{name}={value}" for name, value in running.client_settings.items()))


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
    from semel.engine.running import find, open_log

    # Here and not only in the child: what it prints goes to a log file that nobody looks at yet.
    cluster_options.check(options)
    if find(options.name) is not None:
        raise EnvironmentFailure(f"a cluster named {options.name!r} runs already", next_command="semel cluster status")
    # The child runs in the foreground of its own session, so the terminal's Ctrl-C does not reach it.
    arguments = [argument for argument in sys.argv[1:] if argument != "--detach"]
    with open_log(options.name) as output:
        child = subprocess.Popen(  # noqa: S603  (ourselves, with the same arguments)
            [sys.executable, "-m", "semel", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        deadline = time.monotonic() + DETACH_S_MAX
        # Another start may have taken the name first: its cluster is not the answer to this command.
        while (running := find(options.name)) is None or running.pid != child.pid:
            if child.poll() is not None or time.monotonic() > deadline:
                # One that is only slow would run on after this command has said that it did not start.
                child.kill()
                output.seek(0)
                raise EnvironmentFailure("the cluster did not start", because=output.read().strip())
            time.sleep(POLL_S)
    if options.format == Format.JSON:
        _print_all([running])
    else:
        print(running.bootstrap)
    narrate(
        f"cluster {running.name!r} runs (pid {running.pid}); stop it with: semel cluster stop --name {running.name}"
    )
    _tell_security(running)
    for exposure in running.exposures():  # the cluster itself has said so where nobody looks
        narrate(f"warning: {exposure}")
    return ExitCode.HELD


def _status(options: argparse.Namespace) -> ExitCode:
    from semel.engine.running import find, find_all

    found = find_all() if options.name is None else [one for one in [find(options.name)] if one is not None]
    states = [_broker_states(one) for one in found]
    if options.format == Format.JSON:
        shown = [{**one.shown(), "broker_states": state} for one, state in zip(found, states, strict=True)]
        print_json({"schema": 1, "clusters": shown})
    elif found:
        rows = [
            [one.name, one.engine, str(one.brokers), _told(one, state), one.bootstrap, str(one.pid), one.data]
            for one, state in zip(found, states, strict=True)
        ]
        print(render_table(["name", "engine", "brokers", "state", "bootstrap", "pid", "data"], rows))
    else:
        narrate("no cluster runs; start one with: semel cluster start")
    return ExitCode.HELD


def _broker_states(running: "Running") -> dict[str, str] | None:
    """What each broker does; None when the cluster does not say."""
    from semel.engine.control import ask

    if not running.control_port:
        return None
    try:
        told = ask(running, "broker-states", {}, STATES_S_MAX)
    except SemelError:
        return None  # it is just stopping, or hangs; the others are listed all the same
    return {number: str(state) for number, state in told.items()} if isinstance(told, dict) else None


def _told(running: "Running", states: dict[str, str] | None) -> str:
    if states is None:
        # Apache Kafka has no control socket, so nobody has asked it.
        return "does not answer" if running.control_port else "not known"
    odd = [f"broker {number} {state}" for number, state in states.items() if state != "running"]
    return ", ".join(odd) or "all run"


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
