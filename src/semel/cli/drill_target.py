"""The half of `semel drill` that runs a program of the user's own: `semel drill target.toml`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, narrate, print_json, render_table
from semel.drill.cells import judge
from semel.drill.run_folder import RunFolder, runs_folder
from semel.drill.target import read_target
from semel.drill.target_run import TargetRun
from semel.history import Verdict


def run(path: Path, options: argparse.Namespace, words: Sequence[str]) -> ExitCode:
    """Run it and say what came out; the page, if one is wanted, says these words of the command."""
    target = read_target(path)
    rounds = target.draw(options.seed)
    folder = RunFolder(options.runs or runs_folder())
    for number, one in enumerate(rounds, 1):
        folder.plan({"round": number, "kill_after": one.kill_after})
        folder.plan_lines(list(one.schedule.lines()))
    under_way = TargetRun(target=target, rounds=rounds, folder=folder.path, narrate=narrate)
    observed = under_way.run()
    verdict, reason = judge(target.guarantee, observed)
    found: dict[str, object] = {
        "target": str(path),
        "seed": options.seed,
        "guarantee": target.guarantee.value,
        "verdict": verdict.value,
        "reason": reason,
        "observed": {
            "sent": observed.sent,
            "arrived": observed.arrived,
            "lost": observed.lost,
            "duplicated": observed.duplicated,
            "unexpected": observed.unexpected,
        },
        "fired": observed.fired,
        "starts": under_way.starts,
        "command": f"semel drill {path} --seed {options.seed}",
    }
    # Before it is printed: a closed pipe must not cost the result of minutes.
    folder.note(found)
    told = verdict.value if verdict is Verdict.HELD else f"{verdict.value}: {reason}"
    if options.format == Format.JSON:
        print_json({"schema": 1, **found, "run": str(folder.path)})
    else:
        counts = (observed.sent, observed.lost, observed.duplicated, observed.unexpected, sum(observed.fired.values()))
        headings = ["guarantee", "records", "lost", "doubled", "unexpected", "faults", "starts", "verdict"]
        row = [target.guarantee.value, *map(str, counts), str(under_way.starts), told]
        print(render_table(headings, [row]))
        print(f"run folder  {folder.path}")
    if options.html:
        from semel.cli import drill_page

        drill_page.write(
            options.html, drill_page.of_target(path, target, rounds, observed, told), ExitCode[verdict.name], words
        )
    return ExitCode[verdict.name]
