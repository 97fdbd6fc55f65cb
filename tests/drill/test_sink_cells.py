"""The proof can fail: with a planted mistake in a sink, the cell named for it is BROKEN, and HELD without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mistaken_sinks import MISTAKES

ROOT = Path(__file__).resolve().parents[2]
RUN_S_MAX = 480.0


@pytest.mark.full
def test_a_mistake_breaks_its_cell() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.drill.mistaken_sink_cells"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = [(one.name, one.cell, "BROKEN") for one in MISTAKES]
    wanted += [("", cell, "HELD") for cell in sorted({one.cell for one in MISTAKES})]
    assert [(mistake, cell, verdict) for mistake, cell, verdict, _ in told] == wanted, told
