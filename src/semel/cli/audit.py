"""`semel audit FROM TO`: count what was lost, doubled, altered or reordered between two places.

Runs on Spark: on this machine unless --master names a cluster. Exit codes: 0 held, 1 an anomaly is proven, 2 nobody can
tell because a side is not complete, 3 the two sides cannot be compared as asked, 4 a side cannot be reached.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import TYPE_CHECKING

from semel.cli.audit_follow import add_follow, check_options, follow
from semel.cli.audit_page import check_target, write_page
from semel.cli.audit_session import session_for
from semel.cli.audit_sides import look_at_sides, rows_of_sides
from semel.cli.connecting import add_command_config
from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json
from semel.cli.shell import interrupted_by_sigterm
from semel.errors import ConfigError, ConnectionFailure, EnvironmentFailure, MissingExtraError, SinkError

if TYPE_CHECKING:
    from semel.audit.plan import AuditPlan
    from semel.audit.report import Report
    from semel.audit.sides import Side

EXPECTED = "exactly-one"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    side = "kafka://HOST:PORT/TOPIC[?from=…&to=…], parquet:PATH, json:PATH, delta:PATH or jdbc:URL#TABLE"
    parser.add_argument("left", metavar="FROM", nargs="?", help=f"what went in: {side}")
    parser.add_argument("rights", metavar="TO", nargs="*", help="what came out; several are judged one by one")
    parser.add_argument("--config", metavar="FILE", help="a TOML file that says all this instead of FROM, TO and flags")
    asked = parser.add_argument_group("what is compared")
    asked.add_argument(
        "--key", action="append", default=[], metavar="SQL", help="who a record is, on both sides; repeatable"
    )
    asked.add_argument(
        "--stamp", action="store_true", help="a record is known by the source offset that a sink stamped (stamp=True)"
    )
    asked.add_argument(
        "--content", action="append", metavar="SQL", help="what is compared of it (default: common columns); repeatable"
    )
    for name in ("left", "right"):
        asked.add_argument(
            f"--map-{name}",
            action="append",
            default=[],
            metavar="NAME=SQL",
            help=f"a column that the {name} side gets, for --key and --content; repeatable",
        )
    asked.add_argument(
        "--expect",
        default=EXPECTED,
        help="exactly-one (default), at-most-one, at-least-one, or a number of copies",
    )
    asked.add_argument("--where", default="", metavar="SQL", help="true for left records that are expected at all")
    asked.add_argument("--order", action="store_true", help="topics: look for records that changed their order, too")
    asked.add_argument(
        "--unit", default="", metavar="SQL", help="what a left record was written with: look for parts that arrived"
    )
    asked.add_argument("--pipeline", default="", metavar="NAME", help="judge the source as far as its ledger goes")
    asked.add_argument("--guarantee", default="", help="what that pipeline declares (default exactly_once)")
    page = parser.add_argument_group("the page")
    page.add_argument("--html", metavar="FILE", help="write the report as one page with charts, too")
    for name in ("left", "right"):
        page.add_argument(
            f"--time-{name}",
            default="",
            metavar="SQL",
            help=f"when a record of the {name} side was written (default: a topic's own time)",
        )
    add_follow(parser)
    parser.add_argument("--examples", type=int, default=5, metavar="N", help="examples of each kind (default 5)")
    parser.add_argument("--master", metavar="URL", help="where Spark runs (default: this machine)")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a Spark setting; repeatable")
    add_command_config(parser)
    parser.add_argument(
        "--jdbc-config", metavar="FILE", help="properties of a database: user, password, driver, partitionColumn"
    )
    add_format(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Find out what to read, compare on Spark, and print."""
    check_options(options)
    plan = _plan(options)
    if options.html:
        check_target(options.html)
    if options.command_config:
        plan = plan.with_command_config(options.command_config)
    if options.jdbc_config:
        plan = plan.with_jdbc_config(options.jdbc_config)
    # After the options: who has written a wrong one hears of that before anything is to be installed.
    if find_spec("pyspark") is None:
        raise MissingExtraError.of("spark", "an audit")
    try:
        if options.follow:
            return follow(plan, options)
        with (
            # Before Spark is started, which takes seconds: an address that does not answer is told at once.
            look_at_sides(plan) as looked,
            interrupted_by_sigterm(),
            session_for(options.master, options.conf) as spark,
        ):
            report = _audit(rows_of_sides(spark, plan, looked), plan, options)
    except (ConnectionFailure, SinkError) as error:
        raise EnvironmentFailure(
            f"a side cannot be reached: {error.summary}",
            because=error.because,
            you_want="an address that answers; --command-config for a secured cluster, --jdbc-config for a database",
        ) from error
    if options.format == Format.JSON:
        print_json(report.as_json())
    else:
        print(report)
    if options.html:
        write_page(options.html, report, options)
    narrate(f"verdict: {report.verdict}")
    return ExitCode[report.verdict.name]


def _plan(options: argparse.Namespace) -> AuditPlan:
    """From the file or from the flags, never a mixture: nobody should have to guess which one counts."""
    from semel.audit.finding import check_examples
    from semel.audit.plan import plan_from_file, plan_from_texts

    check_examples(options.examples)
    if (options.time_left or options.time_right) and not options.html:
        raise ConfigError("a time is for the charts of a page, and no page is asked for", you_want="--html FILE")
    if options.config is None:
        if options.left is None or not options.rights:
            raise ConfigError("an audit has two sides", you_want="semel audit FROM TO, or --config FILE")
        return plan_from_texts(
            options.left,
            options.rights,
            key=options.key,
            content=options.content,
            left_columns=options.map_left,
            right_columns=options.map_right,
            expect=options.expect,
            where=options.where,
            pipeline=options.pipeline,
            guarantee=options.guarantee,
            order=options.order,
            unit=options.unit,
            stamp=options.stamp,
            left_time=options.time_left,
            right_time=options.time_right,
        )
    sides = ("left", "rights", "map_left", "map_right", "time_left", "time_right")
    asked = ("key", "stamp", "content", "where", "order", "unit", "pipeline", "guarantee")
    given = [name for name in (*sides, *asked) if getattr(options, name)]
    if given or options.expect != EXPECTED:
        raise ConfigError("--config says what is compared, and so do other arguments", you_want="one of the two")
    return plan_from_file(options.config)


def _audit(sides: list[Side], plan: AuditPlan, options: argparse.Namespace) -> Report:
    from semel.audit.running import audit

    left, *rights = sides
    by_name = {one.name: one for one in rights}
    if len(by_name) < len(rights):
        # Addresses of tables are shown without their options.
        raise ConfigError("two right sides have the same name", you_want="one audit for each of them")
    return audit(
        left,
        by_name,
        key=plan.key,
        content=plan.content,
        expect=plan.expectation,
        examples=options.examples,
        charts=bool(options.html),
        narrate=narrate,
    )
