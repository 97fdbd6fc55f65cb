"""`semel pipeline`: where a pipeline stands, what its next start would do, and what an operator can do about it.

`status` only looks. `reset`, `repair` and `release` show first what they would do, ask for the pipeline's name on a
terminal (or need --yes), and then take the pipeline over: a driver that still runs is fenced.

Exit codes of status: 0 the next start goes on, 1 it would be refused, 2 nobody can tell.
"""

from __future__ import annotations

import argparse
import select
import sys
from typing import TYPE_CHECKING

from semel.cli.connecting import add_command_config, cluster_of
from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json
from semel.errors import ConfigError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from semel.pipeline.forecast import Forecast
    from semel.wire.topology import TopicPartition

LOOK_S = 0.2
OFFSETS_EXAMPLE = """--to offsets --offsets '{"orders": {"0": 120, "1": -2}}'"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="status|reset|repair|release")
    status = verbs.add_parser("status", help="show ledger, owner, checkpoint, and what the next start would do")
    reset = verbs.add_parser("reset", help="let a pipeline go on elsewhere: at its output's end, or where you say")
    repair = verbs.add_parser("repair", help="end a transaction that is open although it was decided")
    release = verbs.add_parser("release", help="give up the name of a pipeline that is not used any more")
    for verb in (status, reset, repair, release):
        verb.add_argument("name", metavar="NAME", help="the pipeline, as given to write_stream")
        verb.add_argument("--bootstrap", metavar="HOST:PORT", required=True, help="the cluster that its output is in")
        add_command_config(verb)
        add_format(verb)
    for verb in (status, reset):
        verb.add_argument("--checkpoint", metavar="DIR", default="", help="the query's checkpoint, on this machine")
    status.add_argument("--guarantee", default="exactly_once", help="what is declared (default exactly_once)")
    status.add_argument(
        "--output", action="append", default=[], metavar="TOPIC", help="an output topic, if no ledger says; repeatable"
    )
    reset.add_argument("--to", required=True, choices=["ledger", "earliest", "offsets"], help="where it goes on")
    reset.add_argument("--offsets", metavar="JSON", help="where, for --to offsets; -2 is the earliest, -1 the latest")
    reset.add_argument("--dry-run", action="store_true", help="only show what would be repeated or lost")
    repair.add_argument("--dry-run", action="store_true", help="only show what is open")
    repair.add_argument("--as", dest="ending", choices=["committed", "aborted"], help="how, if nothing else tells")
    for verb in (reset, repair, release):
        verb.add_argument("--yes", action="store_true", help="do not ask")


def run(options: argparse.Namespace) -> ExitCode:
    """Do what the verb says."""
    match options.verb:
        case "status":
            return _status(options)
        case "reset":
            return _reset(options)
        case "repair":
            return _repair(options)
        case _:
            return _release(options)


# --- status


def _status(options: argparse.Namespace) -> ExitCode:
    from semel.cli.pipeline_json import status_json
    from semel.cli.pipeline_report import render_status
    from semel.pipeline.facts import gather_facts, with_unsettled
    from semel.pipeline.folder import open_checkpoint
    from semel.pipeline.forecast import forecast
    from semel.pipeline.starts import Question
    from semel.sinks.commands import repair_command, reset_command, status_command

    guarantee = Guarantee.parse(options.guarantee)
    checkpoint = open_checkpoint(options.checkpoint) if options.checkpoint else None
    position = checkpoint.position if checkpoint is not None else None
    cluster = cluster_of(options.bootstrap, options.command_config)
    read = list((position.offsets if position is not None else None) or {})
    facts = with_unsettled(cluster, gather_facts(cluster, options.name, partitions=read, outputs=options.output))
    question = Question(
        facts=facts,
        guarantee=guarantee,
        checkpoint=checkpoint,
        status_command=status_command(options.name, options.bootstrap, options.checkpoint),
        reset_command=reset_command(options.name, options.bootstrap, options.checkpoint),
        repair_command=repair_command(options.name, options.bootstrap),
    )
    found = forecast(question)
    if options.format == Format.JSON:
        print_json(status_json(question, found))
    else:
        print(render_status(question, found))
    if facts.is_unknown:
        narrate(f"nothing is known of a pipeline {options.name!r} in this cluster: is the name right?")
    return _exit_code(found, has_checkpoint=checkpoint is not None, is_known=not facts.is_unknown)


def _exit_code(found: list[Forecast], *, has_checkpoint: bool, is_known: bool) -> ExitCode:
    """Of a checkpoint the worst counts; without one there are many starts, and one of them is right."""
    from semel.pipeline.forecast import Expected

    expected = {one.expected for one in found}
    if has_checkpoint and Expected.REFUSE in expected:
        return ExitCode.BROKEN
    if Expected.UNKNOWN in expected or not found or not (has_checkpoint or is_known):
        return ExitCode.UNKNOWN
    return ExitCode.HELD


# --- acts


def _reset(options: argparse.Namespace) -> ExitCode:
    from semel.cli.pipeline_json import reset_json
    from semel.cli.pipeline_report import render_plan
    from semel.pipeline.acts import Reset
    from semel.pipeline.facts import with_unsettled
    from semel.pipeline.plan import To

    to = To(options.to)
    cluster = cluster_of(options.bootstrap, options.command_config)
    reset = Reset(
        cluster=cluster,
        name=options.name,
        to=to,
        checkpoint=options.checkpoint,
        offsets=_offsets(options, to),
    )
    plan, facts, _ = reset.look()
    is_json = options.format == Format.JSON
    if not is_json:
        # Flushed, since the question about it comes on stderr.
        print(render_plan(plan, with_unsettled(cluster, facts)), flush=True)
    if not options.dry_run:
        _confirm(options, facts.owner is None)
        plan = reset.carry_out(facts, narrate)
    if is_json:
        print_json(reset_json(plan, facts, is_done=not options.dry_run))
    if options.dry_run:
        narrate("nothing was changed (--dry-run)")
    elif not options.checkpoint:
        narrate(
            'start it with a new checkpoint folder and, on a source of format "semel", .option("startingOffsets", '
            f'"ledger") with .option("ledger", "{options.name}"); a query that keeps state also needs '
            'KafkaSink(..., lost_state="accept")'
        )
    return ExitCode.HELD


def _offsets(options: argparse.Namespace, to: str) -> dict[TopicPartition, int]:
    from semel.spark.option_values import partition_numbers
    from semel.wire.offsets import EARLIEST

    if (to == "offsets") != (options.offsets is not None):
        raise ConfigError("--offsets says where, for --to offsets: one needs the other", you_want=OFFSETS_EXAMPLE)
    if options.offsets is None:
        return {}
    try:
        return partition_numbers("offsets", options.offsets, least=EARLIEST)
    except ConfigError as error:
        raise ConfigError(
            "--offsets cannot be read", you_wrote=options.offsets, you_want=OFFSETS_EXAMPLE, because=error.because
        ) from None


def _repair(options: argparse.Namespace) -> ExitCode:
    from semel.cli.pipeline_json import repair_json
    from semel.cli.pipeline_report import render_unsettled
    from semel.pipeline.acts import Repair

    ending = None if options.ending is None else options.ending == "committed"
    cluster = cluster_of(options.bootstrap, options.command_config)
    repair = Repair(cluster=cluster, name=options.name, is_commit=ending)
    found = repair.look()
    is_json = options.format == Format.JSON
    if not is_json:
        print(render_unsettled(options.name, found), flush=True)
    is_done = found is not None and found.outcome is not None and not options.dry_run
    if is_done:
        _confirm(options, cannot_fence=False)
        found = repair.carry_out(narrate)
    elif found is not None:
        narrate("nothing was changed (--dry-run)" if options.dry_run else "nothing was changed: say how, with --as")
    if is_json:
        print_json(repair_json(options.name, found, is_done=is_done))
    return ExitCode.UNKNOWN if found is not None and found.outcome is None else ExitCode.HELD


def _release(options: argparse.Namespace) -> ExitCode:
    from semel.cli.pipeline_json import release_json
    from semel.cli.pipeline_report import render_known
    from semel.pipeline.acts import look_before_release, release

    cluster = cluster_of(options.bootstrap, options.command_config)
    facts = look_before_release(cluster, options.name)
    is_json = options.format == Format.JSON
    if not is_json:
        print(render_known(facts), flush=True)
    narrate("without its ledger nobody knows what its output holds: start no query of this name again on that output")
    _confirm(options, facts.owner is None)
    release(cluster, options.name, narrate)
    if is_json:
        print_json(release_json(facts))
    return ExitCode.HELD


def _typed_line() -> str:
    # A signal that comes right before a blocking read is not seen until a key is pressed: Ctrl-C would do nothing.
    while not select.select([sys.stdin], [], [], LOOK_S)[0]:
        pass
    return sys.stdin.readline()


def _confirm(options: argparse.Namespace, cannot_fence: bool) -> None:
    """Ask before anything is changed; ConfigError unless the user types the name, or gave --yes."""
    if cannot_fence:
        narrate("no driver ever owned this name: one that is declared at_least_once cannot be fenced, so stop it first")
    if options.yes:
        return
    # In a script nobody reads what would be lost, so it has to say --yes.
    if not sys.stdin.isatty():
        raise ConfigError(
            "nothing was changed: this needs your confirmation",
            you_want="--yes, or a terminal to answer at, or --dry-run",
        )
    print(f"type the pipeline's name to go on ({options.name}): ", end="", file=sys.stderr, flush=True)
    if _typed_line().strip() != options.name:
        raise ConfigError("nothing was changed: that is not the pipeline's name", you_want=options.name)
