"""`semel cluster kill | pause | …`: break and mend an embedded cluster that another process runs."""

from __future__ import annotations

import argparse
from typing import Any

from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json
from semel.errors import EnvironmentFailure

BROKER = "the broker's number"
OR_CONTROLLER = "the broker's number, or 0 for the controller (-2 where a broker has the number 0)"


def configure(verbs: Any) -> None:
    """Add the verbs; each argument has the name it has on the control socket."""
    _verb(verbs, "kill", "let a broker die as a killed process does", broker=BROKER)
    _verb(verbs, "restart", "start a broker again from its files; one that runs is killed first", broker=BROKER)
    _verb(verbs, "pause", "stop a broker in place: it keeps its connections and answers nothing", broker=OR_CONTROLLER)
    _verb(verbs, "resume", "let a paused broker go on", broker=OR_CONTROLLER)
    split = _verb(verbs, "split", "let nothing pass between two brokers", source=OR_CONTROLLER, target=OR_CONTROLLER)
    split.add_argument("--one-way", action="store_true", help="only from the first to the second")
    _verb(verbs, "heal", "let everything pass between all brokers again")
    move = _verb(verbs, "move-leader", "make an in-sync replica the leader of a partition")
    move.add_argument("topic", help="its topic")
    move.add_argument("partition", type=int, help="its number")
    move.add_argument("broker", type=int, help="who shall lead")
    _verb(verbs, "kill-controller", "let the controller die; another one takes over")
    slow = _verb(verbs, "slow-disk", "let every sync of a broker take longer", broker=BROKER)
    slow.add_argument("sync_ms", type=float, metavar="MS", help="how much longer; 0 ends it")
    fill = _verb(verbs, "fill-disk", "let a broker's disk take no more bytes", broker=BROKER)
    fill.add_argument("--room", type=int, default=0, dest="room_bytes", metavar="BYTES", help="so many still fit")
    fill.add_argument("--end", action="store_const", const=None, dest="room_bytes", help="let as much fit as there is")
    jump = _verb(verbs, "jump-clock", "move a broker's date, forward or back", broker=BROKER)
    jump.add_argument("ms", type=int, metavar="MS", help="by how much")


def _verb(verbs: Any, name: str, summary: str, **numbers: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=summary, description=summary)
    for argument, text in numbers.items():
        parser.add_argument(argument, type=int, help=text)
    parser.add_argument("--name", default="default", help="name of the cluster")
    add_format(parser)
    return parser


def run(options: argparse.Namespace) -> ExitCode:
    """Ask the running cluster."""
    from semel.engine.control import ask
    from semel.engine.control_verbs import VERBS
    from semel.engine.running import find

    running = find(options.name)
    if running is None:
        raise EnvironmentFailure(f"no cluster named {options.name!r} runs", next_command="semel cluster status")
    arguments = {name: getattr(options, name) for name in VERBS[options.verb][1]}
    ask(running, options.verb, arguments)
    told = " ".join(str(value) for value in arguments.values() if value is not None)
    if options.format == Format.JSON:
        print_json({"schema": 1, "cluster": running.name, "verb": options.verb, "arguments": arguments})
    narrate(f"cluster {running.name!r}: {options.verb} {told}".rstrip())
    return ExitCode.HELD
