"""`semel audit FROM TO --follow`: a line for each window of a running pipeline, until an anomaly or Ctrl-C.

Exit codes: 1 at the first anomaly that is proven, or at the end with --keep-going; 0 if windows were settled and all of
them held; 2 if nothing was settled, or a transaction holds the rest up. Ctrl-C and SIGTERM end it with one of these.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from semel.cli.audit_metrics import metrics_server
from semel.cli.audit_session import session_for
from semel.cli.connecting import cluster_of, connection_options
from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, narrate
from semel.cli.shell import interrupted_by_sigterm
from semel.errors import ConfigError
from semel.history.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semel.audit.following import Follower, Watched, WindowReport
    from semel.audit.plan import AuditPlan, SidePlan

LATENESS_S, WINDOW_S = 60.0, 10.0
LATENESS_S_MAX = 7 * 24 * 3600.0
WINDOW_S_MIN = 0.1
WINDOWS_MAX = 10_000
"""Within one bound: what is remembered of each takes room in this process."""
PORT_MAX = 65_535
FOLLOW_ONLY = ("lateness", "window", "windows", "from_now", "keep_going", "metrics_port")
_NOT_HERE = ("pipeline", "guarantee", "order", "unit", "stamp", "html", "time_left", "time_right")


def add_follow(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    follow = parser.add_argument_group("a running pipeline, from topic to topic")
    follow.add_argument(
        "--follow", action="store_true", help="go on and on: a line for each window, JSON with --format"
    )
    follow.add_argument(
        "--lateness", type=float, metavar="SECONDS", help=f"how long a record may be under way (default {LATENESS_S:g})"
    )
    follow.add_argument("--window", type=float, metavar="SECONDS", help=f"length of a window (default {WINDOW_S:g})")
    follow.add_argument("--windows", type=int, metavar="N", help="end when so many windows are settled")
    follow.add_argument(
        "--from-now", action="store_true", help="leave out what is there already (default: begin with the first record)"
    )
    follow.add_argument("--keep-going", action="store_true", help="do not end at the first anomaly")
    follow.add_argument("--metrics-port", type=int, metavar="PORT", help="serve Prometheus metrics on 127.0.0.1")


def check_options(options: argparse.Namespace) -> None:
    """Refuse what would be read and then do nothing, before anything is asked of a cluster."""
    if not options.follow:
        # Not `in (None, False)`: a bound of 0 seconds equals False.
        if given := [one for one in FOLLOW_ONLY if not any(getattr(options, one) is unset for unset in (None, False))]:
            raise ConfigError(f"{_flag(given[0])} is for --follow", you_want=f"--follow {_flag(given[0])}, or neither")
        return
    if given := [one for one in _NOT_HERE if getattr(options, one)]:
        raise ConfigError(
            f"{_flag(given[0])} does not go with --follow",
            because="a lateness bound takes the place of a ledger; order, units, stamps and pages are of a whole audit",
            you_want="one of the two",
        )
    lateness_s, window_s = _lengths(options)
    if not 0 <= lateness_s <= LATENESS_S_MAX:
        raise ConfigError(
            f"--lateness {lateness_s:g} cannot be used", you_want=f"seconds, from 0 to {LATENESS_S_MAX:g}"
        )
    if not max(WINDOW_S_MIN, lateness_s / WINDOWS_MAX) <= window_s <= LATENESS_S_MAX:
        raise ConfigError(
            f"--window {window_s:g} cannot be used",
            you_want=f"seconds, at least {max(WINDOW_S_MIN, lateness_s / WINDOWS_MAX):g} with this bound",
        )
    if options.windows is not None and options.windows < 1:
        raise ConfigError(f"--windows {options.windows} cannot be used", you_want="a number from 1 on")
    if options.metrics_port is not None and not 0 <= options.metrics_port <= PORT_MAX:
        raise ConfigError(
            f"--metrics-port {options.metrics_port} cannot be used", you_want=f"a number from 0 to {PORT_MAX}; 0: any"
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _lengths(options: argparse.Namespace) -> tuple[float, float]:
    lateness_s = LATENESS_S if options.lateness is None else options.lateness
    return lateness_s, WINDOW_S if options.window is None else options.window


def follow(plan: AuditPlan, options: argparse.Namespace) -> ExitCode:
    """Follow every right side until there is a reason to end."""
    watched = [_watched(one) for one in plan.sides]
    if plan.pipeline or plan.order or plan.unit or plan.stamp or any(one.time for one in plan.sides):
        raise ConfigError(
            f"{options.config} asks for what does not go with --follow: pipeline, order, unit, stamp or time"
        )
    _, window_s = _lengths(options)
    told = _Told(keep_going=options.keep_going, windows=options.windows)
    with interrupted_by_sigterm(), ExitStack() as stack:
        try:
            metrics = stack.enter_context(metrics_server(options.metrics_port))
            spark = stack.enter_context(session_for(options.master, options.conf))
            followers = stack.enter_context(_followers(spark, watched, plan, options))
            narrate(f"following; a record may be under way for {_lengths(options)[0]:g} s")
            while not told.is_over:
                began_s = time.monotonic()
                reports = [one.next_window() for one in followers]
                # Before a line is seen: who answers it with Ctrl-C gets the verdict that the line has.
                told.add(reports)
                for report in reports:
                    _print(report, options.format)
                    metrics.add(report)
                if not told.is_over:
                    # From beginning to beginning: a look that takes long does not make its window longer.
                    time.sleep(max(0.0, window_s - (time.monotonic() - began_s)))
        except KeyboardInterrupt:
            narrate("interrupted: what is under way was not judged")
    narrate(f"verdict: {told.verdict}")
    return ExitCode[told.verdict.name]


def _watched(side: SidePlan) -> Watched:
    from semel.audit.following import Watched
    from semel.audit.places import Topic

    place = side.place
    if not isinstance(place, Topic):
        raise ConfigError(
            "--follow goes from topic to topic",
            you_wrote=place.text,
            because="of a table nobody knows which rows are new",
            you_want="the same without --follow, repeated, with --pipeline NAME if semel writes the table: rows under"
            " way raise no alarm then",
        )
    if place.begin is not None or place.end is not None:
        raise ConfigError(
            "--follow has no window of its own", you_wrote=place.text, you_want="--from-now, or the whole topic"
        )
    config = side.command_config or None
    return Watched(
        place=place,
        cluster=cluster_of(place.bootstrap, config),
        connection=connection_options(place.bootstrap, config),
        columns=side.columns,
    )


@contextmanager
def _followers(
    spark: SparkSession, watched: Sequence[Watched], plan: AuditPlan, options: argparse.Namespace
) -> Iterator[list[Follower]]:
    from semel.audit.following import Follower, Terms

    terms = Terms(
        expectation=plan.expectation,
        key=plan.key,
        content=plan.content,
        lateness_s=_lengths(options)[0],
        examples=options.examples,
    )
    left, *rights = watched
    found = [Follower(spark, left, one, terms, clock_s=time.monotonic, from_now=options.from_now) for one in rights]
    for one in found:
        for reason in one.incomplete:
            narrate(f"{reason.text}: what that may have caused is counted and not proven")
        if one.is_left_cut:
            narrate(
                "the source is not read from its first record: copies of what was under way at the start are not"
                " judged, and a record that comes again in the source with equal identity and content may be mistaken"
            )
    try:
        yield found
    finally:
        for one in found:
            one.close()


class _Told:
    """What the lines have said so far, and whether to go on."""

    def __init__(self, *, keep_going: bool, windows: int | None) -> None:
        self._keep_going, self._windows = keep_going, windows
        self._last, self._was, self._settled, self._records = Verdict.UNKNOWN, Verdict.HELD, -1, 0

    def add(self, reports: Sequence[WindowReport]) -> None:
        """Take the lines of one window."""
        self._last = Verdict.worst(one.verdict for one in reports)
        # Before anything is settled a line is UNKNOWN, and that passes; what was counted does not.
        self._was = Verdict.worst([self._was, *(one.verdict for one in reports if any(one.counts.kinds.values()))])
        self._settled = min(one.settled for one in reports)
        self._records += sum(one.counts.came_left + one.counts.came_right for one in reports)

    @property
    def is_over(self) -> bool:
        """An anomaly is enough, unless somebody wants to see all of them."""
        is_enough = self._windows is not None and self._settled >= self._windows
        return is_enough or (self._was is Verdict.BROKEN and not self._keep_going)

    @property
    def verdict(self) -> Verdict:
        """HELD if something was settled and nothing was found in it."""
        return Verdict.worst([self._was, self._last if self._records else Verdict.UNKNOWN])


def _print(report: WindowReport, form: str) -> None:
    at = datetime.now(tz=UTC)
    if form == Format.JSON:
        print(json.dumps(report.as_json(at=at.isoformat(timespec="milliseconds"))), flush=True)
    else:
        print(f"{at:%H:%M:%S}  {report}", flush=True)
