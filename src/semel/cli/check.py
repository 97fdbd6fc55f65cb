"""`semel check`: look at live topics, brokers, groups and at client settings, and say what breaks a guarantee.

Exit codes: 0 every rule held, 1 one is broken, 2 one could not be judged and none is broken.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json
from semel.errors import ConfigError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from semel.check.examination import Examination
    from semel.check.rule import Finding
    from semel.wire.cluster import WireCluster

EXAMPLE = "semel check --bootstrap localhost:9092 --topic orders --guarantee exactly_once"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="the cluster; without it only files are looked at")
    parser.add_argument(
        "--command-config", metavar="FILE", help="properties to connect with: security.protocol, sasl.*, ssl.*"
    )
    parser.add_argument("--topic", action="append", default=[], metavar="NAME", help="a topic to look at; repeatable")
    parser.add_argument("--group", action="append", default=[], metavar="NAME", help="a consumer group; repeatable")
    parser.add_argument(
        "--transactional-id", action="append", default=[], metavar="ID", help="a transactional id; repeatable"
    )
    parser.add_argument(
        "--client-config", action="append", default=[], metavar="FILE", help="settings of a client; repeatable"
    )
    parser.add_argument("--library", metavar="NAME[@VERSION]", help="whose settings they are, if spelling cannot tell")
    parser.add_argument(
        "--spark-options", action="append", default=[], metavar="FILE", help="options of a Spark query; repeatable"
    )
    parser.add_argument("--guarantee", default="exactly_once", help="what is declared (default exactly_once)")
    parser.add_argument("--fix", action="store_true", help="show the topic settings that would make rules hold")
    parser.add_argument("--yes", action="store_true", help="with --fix: change them, then check again")
    add_format(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Examine, print, and with --fix --yes repair and examine again."""
    examination = _examination(options)
    findings = examination.findings()
    if options.fix and options.yes:
        findings = _repaired(examination, findings)
    _print(options, examination.guarantee, findings)
    return _exit_code(findings)


def _exit_code(findings: list[Finding]) -> ExitCode:
    from semel.check.examination import verdict_of
    from semel.history.verdict import Verdict

    match verdict_of(findings):
        case Verdict.HELD:
            return ExitCode.HELD
        case Verdict.BROKEN:
            return ExitCode.BROKEN
        case _:
            return ExitCode.UNKNOWN


def _examination(options: argparse.Namespace) -> Examination:
    from semel.check.examination import Examination
    from semel.check.gathering.files import read_client, read_query
    from semel.world.clock import RealClock

    _check_usage(options)
    return Examination(
        guarantee=Guarantee.parse(options.guarantee),
        now_ms=RealClock().wall_ms,
        cluster=_cluster(options),
        topics=tuple(options.topic),
        groups=tuple(options.group),
        transactional_ids=tuple(options.transactional_id),
        clients=tuple(read_client(path, options.library) for path in options.client_config),
        queries=tuple(read_query(path) for path in options.spark_options),
    )


def _check_usage(options: argparse.Namespace) -> None:
    if options.yes and not options.fix:
        raise ConfigError("--yes says how to --fix, and that is missing", you_want=f"{EXAMPLE} --fix --yes")
    if options.bootstrap:
        return
    if options.topic or options.group or options.transactional_id or options.fix:
        raise ConfigError("topics, groups and transactional ids are looked up in a cluster", you_want=EXAMPLE)
    if not options.client_config and not options.spark_options:
        raise ConfigError("there is nothing to check", you_want=EXAMPLE)


def _cluster(options: argparse.Namespace) -> WireCluster | None:
    from semel.check.gathering.files import read_file
    from semel.wire.cluster import shared_cluster
    from semel.wire.settings import WireSettings

    if not options.bootstrap:
        return None
    given = read_file(options.command_config) if options.command_config else {}
    named = {f"kafka.{name.removeprefix('kafka.')}": str(value) for name, value in given.items()}
    return shared_cluster(WireSettings.from_options({**named, "kafka.bootstrap.servers": options.bootstrap}))


def _repaired(examination: Examination, findings: list[Finding]) -> list[Finding]:
    from semel.check.repair import apply_repairs, as_command, plan_repairs

    repairs = plan_repairs(findings)
    if not repairs or examination.cluster is None:
        narrate("no broken rule can be repaired by a topic setting")
        return findings
    for topic, settings in repairs.items():
        narrate(f"changing: {as_command(topic, settings)}")
    apply_repairs(examination.cluster, repairs)
    return examination.findings()


def _print(options: argparse.Namespace, guarantee: Guarantee, findings: list[Finding]) -> None:
    from semel.check.examination import verdict_of
    from semel.check.repair import as_command, plan_repairs
    from semel.cli.findings import as_json, render_findings

    repairs = plan_repairs(findings) if options.fix else {}
    verdict = verdict_of(findings)
    if options.format == Format.JSON:
        print_json(as_json(findings, verdict.value, guarantee.value, repairs))
        return
    print(render_findings(findings))
    for topic, settings in repairs.items():
        print(f"would change: {as_command(topic, settings)}")
    counts = {name: sum(one.verdict.value == name for one in findings) for name in ("HELD", "BROKEN", "UNKNOWN")}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing was judged"
    narrate(f"{guarantee}: {verdict} ({told}); what a rule is about: semel explain RULE")
