"""`semel check`: look at live topics, brokers, groups and at client settings, and say what breaks a guarantee.

Exit codes: 0 every rule that counts held, 1 one is broken, 2 one could not be judged and none is broken. Warnings,
rules that are ignored and findings of the baseline are shown and do not count.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from semel.cli.connecting import add_command_config, cluster_of
from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json
from semel.errors import ConfigError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from semel.check.examination import Examination
    from semel.check.report import Report
    from semel.check.rule import Finding, Rule
    from semel.check.standing import Baseline

EXAMPLE = "semel check --bootstrap localhost:9092 --topic orders --guarantee exactly_once"
GONE_SHOWN_MAX = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="the cluster; without it only files are looked at")
    add_command_config(parser)
    parser.add_argument("--topic", action="append", default=[], metavar="NAME", help="a topic to look at; repeatable")
    parser.add_argument("--group", action="append", default=[], metavar="NAME", help="a consumer group; repeatable")
    parser.add_argument(
        "--transactional-id", action="append", default=[], metavar="ID", help="a transactional id; repeatable"
    )
    parser.add_argument(
        "--client-config",
        action="append",
        default=[],
        metavar="FILE",
        help="settings of clients: properties, JSON or a Python program, - for stdin; repeatable",
    )
    parser.add_argument("--library", metavar="NAME[@VERSION]", help="whose settings they are, if the file cannot tell")
    parser.add_argument(
        "--spark-options", action="append", default=[], metavar="FILE", help="options of a Spark query; repeatable"
    )
    parser.add_argument("--guarantee", default="exactly_once", help="what is declared (default exactly_once)")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="RULE[,RULE]", help="rules that do not count; repeatable"
    )
    parser.add_argument("--baseline", metavar="FILE", help="findings that are known and do not count")
    parser.add_argument("--write-baseline", metavar="FILE", help="write down what is broken or unknown now")
    parser.add_argument("--strict", action="store_true", help="warnings count, too")
    parser.add_argument("--fix", action="store_true", help="show the topic settings that would make rules hold")
    parser.add_argument("--yes", action="store_true", help="with --fix: change them, then check again")
    add_format(parser, Format.SARIF, Format.JUNIT)


def run(options: argparse.Namespace) -> ExitCode:
    """Examine, print, and with --fix --yes repair and examine again."""
    from semel.check.repair import as_command, plan_repairs
    from semel.check.report import Report
    from semel.check.standing import parse_ignored, read_baseline

    _check_usage(options)
    guarantee = Guarantee.parse(options.guarantee)
    ignored = parse_ignored(options.ignore)
    baseline = read_baseline(options.baseline, guarantee) if options.baseline else None
    examination = _examination(options, guarantee)
    findings = _judged(options, examination, ignored, baseline)
    if options.fix and options.yes:
        # Then everything is asked again: what is reported is what the cluster says after the change.
        _repair(examination, findings)
        findings = _judged(options, examination, ignored, baseline)
    # After the repairs: what was repaired just now is not to be known for ever.
    if options.write_baseline:
        baseline = _write_baseline(options.write_baseline, guarantee, findings)
        findings = baseline.mark(findings)
    repairs = plan_repairs(findings) if options.fix else {}
    report = Report(
        guarantee=guarantee,
        findings=findings,
        clients=examination.clients,
        ignored=tuple(ignored),
        baseline=baseline,
        strict=options.strict,
        repairs=repairs,
        commands=tuple(as_command(examination.connect, topic, settings) for topic, settings in repairs.items()),
    )
    _print(options, report)
    return ExitCode[report.verdict.name]


def _judged(
    options: argparse.Namespace, examination: Examination, ignored: list[Rule], baseline: Baseline | None
) -> list[Finding]:
    from semel.check.standing import ignore, make_strict

    findings = ignore(examination.findings(), ignored)
    if baseline is not None:
        findings = baseline.mark(findings)
    return make_strict(findings) if options.strict else findings


def _write_baseline(path: str, guarantee: Guarantee, findings: list[Finding]) -> Baseline:
    from semel.check.standing import write_baseline

    written = write_baseline(path, guarantee, findings)
    count = len(written.keys)
    narrate(f"{path}: {count} {'finding' if count == 1 else 'findings'} written down; --baseline {path} knows them")
    return written


def _examination(options: argparse.Namespace, guarantee: Guarantee) -> Examination:
    from semel.check.examination import Examination
    from semel.check.gathering.files import read_clients, read_file, read_queries
    from semel.check.repair import names_only_semel_reads
    from semel.world.clock import RealClock

    connection = read_file(options.command_config) if options.command_config else {}
    if options.fix and (foreign := names_only_semel_reads(connection)):
        narrate(
            f"{options.command_config}: Apache Kafka's commands do not read {', '.join(foreign)}; give them Java names"
        )
    return Examination(
        guarantee=guarantee,
        now_ms=RealClock().wall_ms,
        cluster=cluster_of(options.bootstrap, options.command_config) if options.bootstrap else None,
        command_config=options.command_config,
        topics=tuple(options.topic),
        groups=tuple(options.group),
        transactional_ids=tuple(options.transactional_id),
        clients=tuple(one for path in options.client_config for one in read_clients(path, options.library)),
        queries=tuple(one for path in options.spark_options for one in read_queries(path)),
    )


def _check_usage(options: argparse.Namespace) -> None:
    """Refuse options that would be read and then do nothing."""
    if options.yes and not options.fix:
        raise ConfigError("--yes says how to --fix, and that is missing", you_want=f"{EXAMPLE} --fix --yes")
    if options.baseline and options.write_baseline:
        raise ConfigError("--baseline reads the known findings, --write-baseline replaces them", you_want="one of them")
    if options.library and not options.client_config:
        raise ConfigError("--library is about --client-config, and that is missing", you_want="--client-config FILE")
    _check_files(options.client_config, options.spark_options)
    if options.bootstrap:
        return
    if options.topic or options.group or options.transactional_id or options.fix:
        raise ConfigError("topics, groups and transactional ids are looked up in a cluster", you_want=EXAMPLE)
    if options.command_config:
        raise ConfigError("--command-config says how to connect, and --bootstrap is missing", you_want=EXAMPLE)
    if not options.client_config and not options.spark_options:
        raise ConfigError("there is nothing to check", you_want=EXAMPLE)


def _check_files(*kinds: list[str]) -> None:
    from semel.check.gathering.files import STDIN

    if sum(files.count(STDIN) for files in kinds) > 1:
        raise ConfigError("stdin can be read once", you_want=f"one {STDIN}, and files for the rest")
    for files in kinds:
        for path in files:
            if files.count(path) > 1:
                raise ConfigError(f"{path} is named twice", you_want="each file once")


def _repair(examination: Examination, findings: list[Finding]) -> None:
    from semel.check.repair import apply_repairs, as_command, plan_repairs

    repairs = plan_repairs(findings)
    if not repairs or examination.cluster is None:
        narrate("no broken rule can be repaired by a topic setting")
        return
    for topic, settings in repairs.items():
        narrate(f"changing: {as_command(examination.connect, topic, settings)}")
    apply_repairs(examination.cluster, repairs)


def _print(options: argparse.Namespace, report: Report) -> None:
    from semel.cli.findings import as_json, render_findings, summary
    from semel.cli.findings_junit import as_junit
    from semel.cli.findings_sarif import as_sarif

    match Format(options.format):
        case Format.JSON:
            print_json(as_json(report))
        case Format.SARIF:
            print_json(as_sarif(report))
        case Format.JUNIT:
            print(as_junit(report))
        case Format.TEXT:
            print(render_findings(report.findings))
            for command in report.commands:
                print(f"# would change:\n{command}")
    # Those formats have no place for them, and stdout is theirs alone.
    if options.format in (Format.SARIF, Format.JUNIT):
        for command in report.commands:
            narrate(f"would change: {command}")
    for client in report.clients:
        narrate(f"{client.name}: read as settings of {client.settings.library} ({client.because})")
    gone = report.baseline.gone(report.findings) if report.baseline else []
    if gone:
        shown = ", ".join(gone[:GONE_SHOWN_MAX]) + (" …" if len(gone) > GONE_SHOWN_MAX else "")
        narrate(f"{len(gone)} of the baseline not found again: {shown}; --write-baseline makes a new one")
    narrate(summary(report))
