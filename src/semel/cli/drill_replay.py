"""`semel drill replay … -- python job.py`: strike a streaming query, start it again, and audit its output.

For any query of Spark, with or without semel in it. The job is started several times, on a checkpoint and an output
that are its own for this, on copies (`--copy`), or on a cluster that semel starts (`--embedded`). Exit codes: 0 nothing
was lost, doubled or altered, 1 something was, 2 a point was not reached or a side is not complete.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from semel.cli.audit_page import check_target
from semel.cli.exit_code import ExitCode, code_of
from semel.cli.output import Format, add_format, narrate, print_json, render_table
from semel.cli.shell import interrupted_by_sigterm
from semel.errors import ConfigError, EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from semel.drill.replay import Audited, Stage, Struck
    from semel.drill.replay_points import Point
    from semel.drill.replay_stages import Places

KINDS = ("lost", "duplicated", "altered", "unexpected")
HEADINGS = ("point", "times", *KINDS, "verdict")
KILLS_MAX = 1_000
RECORDS_MAX = 1_000_000
SEED_MAX = 2**63 - 1
DOES_NOT_APPLY = "does not apply"
WORDS = ("planned", "writing", "state", "between", "forgotten")
# What semel writes into the embedded cluster, and jobs pass on, is recognised by its value.
EMBEDDED_AUDIT = ("--map-left=id=string(value)", "--map-right=id=string(value)", "--key=id")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.usage = (
        "semel drill replay --checkpoint DIR --from FROM --to TO [options] -- COMMAND [ARGUMENT ...]\n"
        "       semel drill replay --embedded [options] -- COMMAND [ARGUMENT ...]"
    )
    parser.add_argument(
        "command", nargs="+", metavar="COMMAND", help="the job, which ends by itself (availableNow); or module:function"
    )
    parser.add_argument("--checkpoint", metavar="DIR", help="of the query, on this machine")
    parser.add_argument("--from", dest="left", metavar="FROM", help="its input, as in semel audit")
    parser.add_argument("--to", dest="right", metavar="TO", help="its output, as in semel audit")
    parser.add_argument(
        "--also", action="append", default=[], metavar="TO", help="another output of the same query; repeatable"
    )
    parser.add_argument(
        "--audit", action="append", default=[], metavar="OPTION", help="goes to semel audit: --audit=--key=id"
    )
    parser.add_argument(
        "--copy", action="store_true", help="run on copies: {checkpoint} and {output} in COMMAND are their folders"
    )
    parser.add_argument(
        "--embedded",
        action="store_true",
        help="run on a cluster that semel starts and fills: {bootstrap}, {input}, {output}, {checkpoint}, {folder}",
    )
    parser.add_argument("--records", type=int, metavar="N", help="new ones before each strike (default 100)")
    parser.add_argument(
        "--point", action="append", default=[], choices=WORDS, help="only this one; repeatable (default all)"
    )
    parser.add_argument("--kills", type=int, default=2, metavar="N", help="at each point (default 2)")
    parser.add_argument("--seed", type=int, default=1, help="drawn moments follow from it (default 1)")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="for one run of the job (default 600)")
    parser.add_argument("--html", metavar="FILE", help="also write one page for a browser, without script")
    add_format(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Strike, audit, and print a line for each point."""
    from semel.drill.replay import Replay
    from semel.drill.replay_points import Point

    _check(options)
    if options.html:
        check_target(options.html)
    with interrupted_by_sigterm(), _stages(options) as stage_of:
        found = Replay(
            stage_of=stage_of,
            points=[point for point in Point if not options.point or point.word in options.point],
            kills=options.kills,
            run_s_max=options.timeout,
            seed=options.seed,
            narrate=narrate,
        ).run()
    if options.format == Format.JSON:
        print_json({"schema": 1, "points": [_as_json(one) for one in found]})
    else:
        print(render_table(HEADINGS, [list(map(str, _line(one))) for one in found]))
    code = code_of([verdict_of(one) for one in found if one.applies] or [ExitCode.UNKNOWN])
    if options.html:
        from semel.cli import drill_page

        parts = drill_page.of_points(HEADINGS, [_line(one) for one in found])
        drill_page.write(options.html, parts, code, drill_page.replay_words(options))
    return code


def _check(options: argparse.Namespace) -> None:
    if not 1 <= options.kills <= KILLS_MAX:
        raise ConfigError(f"--kills {options.kills} cannot be used", you_want=f"1 to {KILLS_MAX}")
    if not 0 < options.timeout < float("inf"):
        raise ConfigError(f"--timeout {options.timeout:g} leaves no time", you_want="seconds that one run may take")
    if not 0 <= options.seed <= SEED_MAX:
        raise ConfigError(f"{options.seed} is no seed", you_want=f"a whole number from 0 to {SEED_MAX}")
    if options.embedded and options.copy:
        raise ConfigError("a new cluster has nothing to copy", you_want="--embedded, or --copy")
    if options.records is not None and not options.embedded:
        raise ConfigError("--records says what semel writes into its own cluster", you_want="--embedded --records 100")
    if options.records is not None and not 1 <= options.records <= RECORDS_MAX:
        raise ConfigError(f"--records {options.records} cannot be used", you_want=f"1 to {RECORDS_MAX}")
    if options.embedded:
        if options.left:
            raise ConfigError("--embedded has an input of its own", you_want="no --from")
        return
    given = {"--checkpoint": options.checkpoint, "--from": options.left, "--to": options.right}
    if missing := [name for name, value in given.items() if not value]:
        raise ConfigError(
            f"{' and '.join(missing)} must be said",
            you_want="semel drill replay --checkpoint DIR --from FROM --to TO -- COMMAND, or --embedded",
            next_command="semel drill replay --help",
        )


@contextmanager
def _stages(options: argparse.Namespace) -> Iterator[Callable[[Point], Stage]]:
    """Who makes the stage of each point; what is made for it ends with this."""
    from semel.audit.places import parse_place
    from semel.drill.replay_stages import InPlace, OnCluster, OnCopies
    from semel.drill.run_folder import scratch_folder

    places = _places(options)
    for side in (places.left, *places.rights):
        parse_place(side)  # wrong ones are refused before anything is started

    def audit(left: str, rights: Sequence[str]) -> Audited:
        return audit_of(left, rights, options)

    if options.embedded:
        from semel.engine.embedded import Cluster

        with scratch_folder() as folder, Cluster(brokers=1, data=folder / "cluster") as cluster:
            yield OnCluster(places, audit, folder, cluster, options.records or 100).stage
    elif options.copy:
        with scratch_folder() as folder:
            yield OnCopies(places, audit, folder).stage
    else:
        yield InPlace(places, audit).stage


def _places(options: argparse.Namespace) -> Places:
    from semel.drill.replay_stages import Places

    if options.embedded:
        return Places(
            command=tuple(options.command),
            checkpoint=options.checkpoint or "{folder}/checkpoint",
            left="kafka://{bootstrap}/{input}",
            rights=(options.right or "kafka://{bootstrap}/{output}", *options.also),
        )
    return Places(
        command=tuple(options.command),
        checkpoint=options.checkpoint,
        left=options.left,
        rights=(options.right, *options.also),
    )


def audit_of(left: str, rights: Sequence[str], options: argparse.Namespace) -> Audited:
    """Audit in a process of its own: Spark's settings there are the audit's, not the job's."""
    from semel.drill.replay import Audited

    narrate("auditing the output")
    asked = options.audit or (EMBEDDED_AUDIT if options.embedded else ())
    # Also since a session of this process would keep its JVM until the end.
    command = [sys.executable, "-m", "semel", "audit", left, *rights, "--format", "json", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's own words
    if done.returncode == ExitCode.USAGE:
        raise ConfigError("semel audit does not take these sides and options", because=done.stderr.strip()[-1000:])
    if done.returncode not in (ExitCode.HELD, ExitCode.BROKEN, ExitCode.UNKNOWN):
        raise EnvironmentFailure("the output cannot be audited", because=done.stderr.strip()[-1000:])
    report = json.loads(done.stdout)
    counts, unproven = Counter(dict.fromkeys(KINDS, 0)), Counter[str]()
    is_whole, reasons = True, []
    for comparison in report["comparisons"]:
        for finding in comparison["findings"]:
            # A kind without a column of its own still breaks the verdict.
            (counts if finding["proven"] else unproven)[finding["kind"].lower()] += finding["count"]
        reasons += [one["text"] for one in comparison["incomplete"]]
        # Not the verdict alone: BROKEN may be the doing of what was there before the strike, and goes before UNKNOWN.
        is_whole = is_whole and comparison["verdict"].upper() != "UNKNOWN" and not comparison["incomplete"]
    return Audited(anomalies=counts, unproven=+unproven, is_whole=is_whole, reason="; ".join(dict.fromkeys(reasons)))


def verdict_of(struck: Struck) -> ExitCode:
    """Broken by any anomaly that is proven; held only if it was struck and the audit could tell."""
    if any(struck.anomalies.values()):
        return ExitCode.BROKEN
    return ExitCode.HELD if struck.times and struck.is_whole and not _unproven(struck) else ExitCode.UNKNOWN


def _unproven(struck: Struck) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in struck.unproven.items() if count)


def told(struck: Struck) -> str:
    """The verdict, why it is not clear, and what of the counts may not be the strike's doing."""
    if not struck.applies:
        return f"{DOES_NOT_APPLY}: {struck.reason}"
    verdict = verdict_of(struck)
    parts = [verdict.name]
    if verdict is ExitCode.UNKNOWN and struck.times:
        parts = [f"{verdict.name}: the output cannot be judged{f': {struck.reason}' if struck.reason else ''}"]
    elif verdict is ExitCode.UNKNOWN:
        parts = [f"{verdict.name}: not reached", struck.reason]
    if struck.doubt:
        parts.append(struck.doubt)
    if unproven := _unproven(struck):
        parts.append(f"not proven: {unproven}")
    return "; ".join(parts)


def _line(struck: Struck) -> list[str | int]:
    return [str(struck.point), struck.times, *(struck.anomalies.get(kind, 0) for kind in KINDS), told(struck)]


def _as_json(struck: Struck) -> dict[str, object]:
    return {
        "point": struck.point.name,
        "meaning": str(struck.point),
        "applies": struck.applies,
        "times": struck.times,
        "anomalies": dict(struck.anomalies),
        "unproven": dict(struck.unproven),
        "doubt": struck.doubt,
        "verdict": verdict_of(struck).name if struck.applies else "DOES_NOT_APPLY",
        "reason": struck.reason,
    }
