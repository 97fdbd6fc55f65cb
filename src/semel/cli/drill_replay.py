"""`semel drill replay … -- python job.py`: strike a streaming query, start it again, and audit its output.

For any query of Spark, with or without semel in it. The job is started several times, on a checkpoint and an output
that are its own for this: both are written to. Exit codes: 0 nothing was lost, doubled or altered, 1 something was, 2 a
point was not reached or a side is not complete.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from semel.cli.audit_page import check_target
from semel.cli.drill_verdicts import code_of
from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json, render_table
from semel.cli.shell import interrupted_by_sigterm
from semel.errors import ConfigError, EnvironmentFailure

if TYPE_CHECKING:
    from semel.drill.replay import Audited, Struck

KINDS = ("lost", "duplicated", "altered", "unexpected")
HEADINGS = ("point", "times", *KINDS, "verdict")
KILLS_MAX = 1_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.usage = "semel drill replay --checkpoint DIR --from FROM --to TO [options] -- COMMAND [ARGUMENT ...]"
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the job, which ends by itself (availableNow)")
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="of the query, on this machine")
    parser.add_argument("--from", dest="left", required=True, metavar="FROM", help="its input, as in semel audit")
    parser.add_argument("--to", dest="right", required=True, metavar="TO", help="its output, as in semel audit")
    parser.add_argument(
        "--audit", action="append", default=[], metavar="OPTION", help="goes to semel audit: --audit=--key=id"
    )
    parser.add_argument("--kills", type=int, default=2, metavar="N", help="how often it is killed (default 2)")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="for one run of the job (default 600)")
    parser.add_argument("--html", metavar="FILE", help="also write one page for a browser, without script")
    add_format(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Strike, audit, and print a line for each point."""
    from semel.drill.replay import Replay

    if not 1 <= options.kills <= KILLS_MAX:
        raise ConfigError(f"--kills {options.kills} cannot be used", you_want=f"1 to {KILLS_MAX}")
    if options.timeout <= 0:
        raise ConfigError(f"--timeout {options.timeout:g} leaves no time", you_want="seconds that one run may take")
    if options.html:
        check_target(options.html)
    replay = Replay(
        command=options.command,
        checkpoint=Path(options.checkpoint),
        audit=lambda: _audit(options),
        kills=options.kills,
        run_s_max=options.timeout,
        narrate=narrate,
    )
    with interrupted_by_sigterm():
        found = replay.run()
    if options.format == Format.JSON:
        print_json({"schema": 1, "points": [_as_json(one) for one in found]})
    else:
        print(render_table(HEADINGS, [list(map(str, _line(one))) for one in found]))
    code = code_of([verdict_of(one) for one in found])
    if options.html:
        from semel.cli import drill_page

        parts = drill_page.of_points(HEADINGS, [_line(one) for one in found])
        drill_page.write(options.html, parts, code, drill_page.replay_words(options))
    return code


def _audit(options: argparse.Namespace) -> Audited:
    """In a process of its own: Spark's settings there are the audit's, not the job's."""
    from semel.drill.replay import Audited

    narrate("auditing the output")
    command = [sys.executable, "-m", "semel", "audit", options.left, options.right, "--format", "json", *options.audit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's own words
    if done.returncode == ExitCode.USAGE:
        raise ConfigError("semel audit does not take these sides and options", because=done.stderr.strip()[-1000:])
    if done.returncode not in (ExitCode.HELD, ExitCode.BROKEN, ExitCode.UNKNOWN):
        raise EnvironmentFailure("the output cannot be audited", because=done.stderr.strip()[-1000:])
    report = json.loads(done.stdout)
    counts = dict.fromkeys(KINDS, 0)
    for comparison in report["comparisons"]:
        for finding in comparison["findings"]:
            kind = finding["kind"].lower()
            counts[kind] = counts.get(kind, 0) + finding["count"]
    return Audited(anomalies=counts, is_whole=report["verdict"].upper() != "UNKNOWN")


def verdict_of(struck: Struck) -> ExitCode:
    """Broken by any anomaly; held only if it was struck and the audit could tell."""
    if any(struck.anomalies.values()):
        return ExitCode.BROKEN
    return ExitCode.HELD if struck.times and struck.is_whole else ExitCode.UNKNOWN


def _line(struck: Struck) -> list[str | int]:
    words = verdict_of(struck).name
    if verdict_of(struck) is ExitCode.UNKNOWN:
        words += (
            ": the output cannot be judged"
            if struck.times
            else ": not reached; is --checkpoint the folder of this query, and was there something to read?"
        )
    return [str(struck.point), struck.times, *(struck.anomalies.get(kind, 0) for kind in KINDS), words]


def _as_json(struck: Struck) -> dict[str, object]:
    return {
        "point": struck.point.name,
        "meaning": str(struck.point),
        "times": struck.times,
        "anomalies": dict(struck.anomalies),
        "verdict": verdict_of(struck).name,
    }
