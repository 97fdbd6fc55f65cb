"""`semel drill`: break things on purpose, on an embedded cluster, and count what that does to records.

`semel drill S003` breaks a rule of `semel check`, then follows it, under the same fault. `semel drill M04`, `--fault`
and `--quick` run cells of the matrix guarantee x fault x path; `--all` runs every rule and every cell. `semel drill
target.toml` breaks a program of the user's own. Each of the three has a file beside this one.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from semel.cli import drill_matrix, drill_rules, drill_target
from semel.cli.audit_page import check_target
from semel.cli.drill_progress import Progress
from semel.cli.exit_code import ExitCode, code_of
from semel.cli.output import Format, add_format, narrate, print_json
from semel.cli.shell import interrupted_by_sigterm
from semel.errors import ConfigError

SEED_MAX = 2**63 - 1
JOBS_MAX = 64


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "name", nargs="*", metavar="NAME", help="rules (S003), rows (M04) or cells; or one file target.toml; see --list"
    )
    parser.add_argument("--fault", default="", metavar="NAME", help="only cells with this fault, such as kill-broker")
    parser.add_argument("--quick", action="store_true", help="a few cells that touch every row that has one (minutes)")
    parser.add_argument("--all", action="store_true", help="every rule and every cell (half an hour)")
    parser.add_argument("--list", action="store_true", help="say which rules and cells there are, and run none")
    parser.add_argument("--seed", type=int, default=1, help="when faults strike follows from it (default 1)")
    parser.add_argument(
        "--engine",
        choices=(drill_matrix.EMBEDDED, drill_matrix.APACHE),
        default=drill_matrix.EMBEDDED,
        help="apache: the cells that need no hook inside the broker, on Apache Kafka (default embedded)",
    )
    parser.add_argument("--nodes", type=int, metavar="N", help="of Apache Kafka, 1 to 3 (default 1)")
    parser.add_argument(
        "-j",
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="how many cells run at once (default 1); those with Spark share one driver and run one by one",
    )
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where run folders are kept (default ~/.cache/semel)")
    parser.add_argument("--html", metavar="FILE", help="also write one page for a browser, without script")
    add_format(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Run what was asked for and print a line for each cell."""
    if not 0 <= options.seed <= SEED_MAX:
        raise ConfigError(f"{options.seed} is no seed", you_want=f"a whole number from 0 to {SEED_MAX}")
    _check_jobs(options)
    if options.html:
        check_target(options.html)
    if any(name.endswith(".toml") for name in options.name):
        return _run_target(options)
    rules, cells = _on_engine(options, *_chosen(options))
    if options.list:
        if options.html:
            raise ConfigError("--list runs nothing that a page could show", you_want="semel drill --quick --html FILE")
        _list(rules, cells, options.format)
        return ExitCode.HELD
    begun = time.monotonic()
    with interrupted_by_sigterm():
        # Each rule is two: ignored and followed.
        progress = Progress(2 * len(rules) + len(cells))
        tried = drill_rules.run(rules, progress)
        matrix = drill_matrix.run(cells, options, progress) if cells else None
    if options.format == Format.JSON:
        found: dict[str, object] = {"schema": 1, "seconds": round(time.monotonic() - begun, 1), "jobs": options.jobs}
        # Rules were there first: what reads "cells" finds them, and nothing else, in it.
        found |= {"cells": [drill_rules.as_json(one) for one in tried]} if tried or matrix is None else {}
        print_json(found | (matrix.as_json() if matrix is not None else {}))
    else:
        if tried:
            print(drill_rules.render(tried))
        if matrix is not None:
            print(matrix.render())
    code = code_of([*(one.verdict for one in tried), *(matrix.verdicts if matrix is not None else ())])
    if options.html:
        from semel.cli import drill_page

        drill_page.write(options.html, drill_page.of_cells(tried, matrix), code, _words(options))
    return code


def _check_jobs(options: argparse.Namespace) -> None:
    if not 1 <= options.jobs <= JOBS_MAX:
        raise ConfigError(f"-j {options.jobs} cannot be used", you_want=f"1 to {JOBS_MAX}")
    if options.jobs > 1 and options.engine == drill_matrix.APACHE:
        raise ConfigError(
            "cells on Apache Kafka run one by one",
            because="they share a cluster, and a node that one of them kills would be missed by the others",
            you_want="--engine apache without -j",
        )


def _words(options: argparse.Namespace) -> list[str]:
    """What was asked for, to be asked for again."""
    flags = [f"--{name}" for name in ("quick", "all") if getattr(options, name)]
    fault = ["--fault", options.fault] if options.fault else []
    runs = ["--runs", str(options.runs)] if options.runs else []
    engine = ["--engine", options.engine] if options.engine != drill_matrix.EMBEDDED else []
    nodes = ["--nodes", str(options.nodes)] if options.nodes is not None else []
    jobs = ["-j", str(options.jobs)] if options.jobs > 1 else []
    return [
        *options.name,
        *flags,
        *fault,
        *engine,
        *nodes,
        *jobs,
        *runs,
        "--seed",
        str(options.seed),
        "--html",
        options.html,
    ]


def _chosen(options: argparse.Namespace) -> tuple[list[str], list[drill_matrix.Cell]]:
    """The rules and the cells that are asked for."""
    from semel.drill.cells import CELLS, chosen_cells, quick_cells

    everything = [word for word, is_on in (("--all", options.all), ("--list", options.list)) if is_on]
    if everything and (options.name or options.fault or options.quick):
        raise ConfigError("some are named, and all are asked for", you_want="semel drill S003, or semel drill --all")
    if options.quick and (options.name or options.fault):
        raise ConfigError("--quick has cells of its own", you_want="semel drill M04, or semel drill --quick")
    if everything:
        return drill_rules.known(), list(CELLS)
    if options.quick:
        return [], quick_cells()
    named = _with_rules_of_rows([_cased(name) for name in options.name])
    rules = [name.upper() for name in named if drill_rules.is_rule(name)]
    drill_rules.check(rules)
    others = [name for name in named if not drill_rules.is_rule(name)]
    if rules and options.fault:
        raise ConfigError("a rule has its own fault", you_want="semel drill S003, or semel drill --fault kill-broker")
    if not (rules or others or options.fault):
        raise ConfigError(
            "nothing is named",
            you_want="a rule (semel drill S003), a row (semel drill M04), a program of yours (semel drill target.toml),"
            " or semel drill --quick",
            next_command="semel drill --list",
        )
    return list(dict.fromkeys(rules)), chosen_cells(others, fault=options.fault) if others or options.fault else []


def _with_rules_of_rows(names: list[str]) -> list[str]:
    """A row that is about a setting is shown by the drills of rules; one that has no drill at all is refused."""
    from semel.drill.coverage import ROW_REASONS, ROW_RULES

    for name in names:
        if name in ROW_REASONS:
            raise ConfigError(f"row {name} has no cell", because=ROW_REASONS[name], next_command="semel drill --list")
    return [one for name in names for one in ROW_RULES.get(name, (name,))]


def _on_engine(
    options: argparse.Namespace, rules: list[str], cells: list[drill_matrix.Cell]
) -> tuple[list[str], list[drill_matrix.Cell]]:
    """What of it the engine can run; what was named and cannot be run there is refused."""
    if options.engine == drill_matrix.EMBEDDED:
        if options.nodes is not None:
            raise ConfigError("--nodes is for Apache Kafka", you_want="--engine apache --nodes 3")
        return rules, cells
    from semel.drill.on_apache import NODES_MAX, can_run

    options.nodes = 1 if options.nodes is None else options.nodes
    if not 1 <= options.nodes <= NODES_MAX:
        raise ConfigError(f"--nodes {options.nodes} cannot be used", you_want=f"1 to {NODES_MAX}")
    able = [cell for cell in cells if can_run(cell, options.nodes)]
    is_everything = options.all or options.list
    if (rules and not is_everything) or not able:
        raise ConfigError(
            "this needs hooks inside the broker, which Apache Kafka does not have, or more nodes",
            you_want="semel drill --fault kill-client --engine apache, or --fault kill-broker with --nodes 3",
            next_command="semel drill --list --engine apache",
        )
    if len(able) < len(cells):
        narrate(f"{len(cells) - len(able)} cells need hooks inside the broker, or other nodes, and are left out")
    return [], able


def _cased(name: str) -> str:
    """Rows are written in capitals, cells are not."""
    # M04 and S003: rows and rules are that short, cells are not.
    return name.upper() if len(name) <= 4 else name.lower()


def _list(rules: list[str], cells: list[drill_matrix.Cell], form: str) -> None:
    if form == Format.JSON:
        listed = {"drills": drill_rules.listed(rules), "cells": drill_matrix.listed(cells)}
        print_json({"schema": 1, **listed, **drill_matrix.coverage()})
    else:
        if rules:
            print(drill_rules.render_list(rules) + "\n")
        print(drill_matrix.render_list(cells) + "\n")
        print(drill_matrix.render_coverage())


def _run_target(options: argparse.Namespace) -> ExitCode:
    if len(options.name) > 1 or options.fault or options.quick or options.all or options.list:
        raise ConfigError("a target is run alone", you_want="semel drill target.toml [--seed N]")
    if options.jobs > 1:
        raise ConfigError("a target is one program", you_want="no -j")
    if options.engine != drill_matrix.EMBEDDED or options.nodes is not None:
        raise ConfigError("a target is broken by hooks of the embedded cluster", you_want="no --engine, no --nodes")
    with interrupted_by_sigterm():
        return drill_target.run(Path(options.name[0]), options, _words(options) if options.html else [])
