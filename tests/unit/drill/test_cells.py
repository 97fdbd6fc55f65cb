"""The matrix: which cells there are, what each expects, and when it has shown nothing."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.drill.cells import CELLS, KILL_CLIENT, QUICK, Cell, Observed, chosen_cells, judge, quick_cells, rows
from semel.drill.programs import send_at_least_once
from semel.drill.running import run_cell
from semel.drill.spark_ways import PATHS, SPARK_WAYS, Act
from semel.drill.story_ways import STORY, STORY_WAY
from semel.drill.ways import SESSION, WAYS
from semel.errors import ConfigError
from semel.faults import FAULTS
from semel.guarantee import Anomaly, Guarantee
from semel.history import Verdict

MOST, LEAST, EXACTLY = Guarantee
LOST, DUPLICATED = Anomaly.LOST, Anomaly.DUPLICATED
FELT = {"lose-response api=Produce": 1}


def seen(lost: int = 0, duplicated: int = 0, *, arrived: int = 10, unexpected: int = 0, reason: str = "") -> Observed:
    return Observed(
        sent=10,
        arrived=arrived,
        lost=lost,
        duplicated=duplicated,
        unexpected=unexpected,
        fired=FELT,
        reason=reason,
    )


@pytest.mark.parametrize(
    ("guarantee", "observed", "certain", "verdict"),
    [
        (EXACTLY, seen(), None, Verdict.HELD),
        (EXACTLY, seen(lost=1), None, Verdict.BROKEN),
        (EXACTLY, seen(duplicated=1), None, Verdict.BROKEN),
        (EXACTLY, seen(unexpected=1), None, Verdict.BROKEN),
        (LEAST, seen(duplicated=1), None, Verdict.HELD),
        (LEAST, seen(lost=1), None, Verdict.BROKEN),
        (MOST, seen(lost=1), None, Verdict.HELD),
        (MOST, seen(duplicated=1), None, Verdict.BROKEN),
        # The damage of a weaker guarantee must show where it is certain.
        (LEAST, seen(duplicated=1), DUPLICATED, Verdict.HELD),
        (LEAST, seen(), DUPLICATED, Verdict.BROKEN),
        (MOST, seen(), LOST, Verdict.BROKEN),
        # What was not felt, not done or not written has shown nothing; a duplicate that is there is one all the same.
        (EXACTLY, replace(seen(), fired={}), None, Verdict.UNKNOWN),
        (EXACTLY, replace(seen(), fired=FELT | {"kill-broker broker=1": 0}), None, Verdict.UNKNOWN),
        (EXACTLY, seen(lost=10, arrived=0), None, Verdict.UNKNOWN),
        (EXACTLY, seen(lost=5, arrived=5, reason="it is not done"), None, Verdict.UNKNOWN),
        (EXACTLY, seen(duplicated=1, reason="it is not done"), None, Verdict.BROKEN),
        # A promise that is no count: broken is broken, also where there is nothing to count.
        (EXACTLY, replace(seen(), broken="work did not go on"), None, Verdict.BROKEN),
        (EXACTLY, replace(seen(arrived=0, reason="nobody leads"), broken="work did not go on"), None, Verdict.BROKEN),
        (MOST, replace(seen(), fired={}), LOST, Verdict.UNKNOWN),
        # A strike that was left out shakes nothing that was counted.
        (EXACTLY, replace(seen(), missed="killed 1 of 2 times"), None, Verdict.UNKNOWN),
        (EXACTLY, replace(seen(lost=1), missed="killed 1 of 2 times"), None, Verdict.BROKEN),
    ],
)
def test_the_verdict(guarantee: Guarantee, observed: Observed, certain: Anomaly | None, verdict: Verdict) -> None:
    found, why = judge(guarantee, observed, certain)
    assert found is verdict
    assert bool(why) is (verdict is not Verdict.HELD)


def test_values_are_counted_one_by_one() -> None:
    found = Observed.count(["a", "b", "c"], Counter("aacx"), fired=FELT, errors=[], reason="")
    assert (found.sent, found.arrived, found.lost, found.duplicated, found.unexpected) == (3, 4, 1, 1, 1)


def test_every_fault_and_every_way_has_a_cell() -> None:
    assert {kind for cell in CELLS for kind in cell.kinds} == {*FAULTS, KILL_CLIENT, STORY, *Act}
    assert {cell.way for cell in CELLS} == {*WAYS, *SPARK_WAYS, STORY_WAY}
    assert len({cell.id for cell in CELLS}) == len(CELLS)


def test_a_quick_run_touches_every_row_and_shows_each_damage() -> None:
    quick = quick_cells()
    assert len(quick) == len(QUICK)
    assert {row for cell in quick for row in cell.rows} == set(rows())
    assert {cell.certain for cell in quick} == {None, LOST, DUPLICATED}
    assert {cell.way for cell in quick} >= set(WAYS)
    assert {cell.way.path for cell in quick} >= set(PATHS)


def test_what_is_certain_is_allowed() -> None:
    certain = [cell for cell in CELLS if cell.certain is not None]
    assert certain
    assert all(cell.certain in cell.allowed for cell in certain)


def test_the_schedule_follows_from_the_seed() -> None:
    plans = [[json.dumps(cell.schedule(seed)) for cell in CELLS] for seed in (1, 1, 2)]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2]
    # In every process: a seed that was written down is of use tomorrow.
    assert [cell_of("copy.exactly-once.disk-full").count(seed) for seed in range(8)] == [2, 3, 2, 4, 4, 3, 2, 4]
    assert {cell.count(seed) for cell in CELLS[:60] for seed in range(5)} == {0, 2, 3, 4}
    assert {cell.count(seed) for cell in CELLS if cell.way in SPARK_WAYS for seed in range(5)} == {2, 3}


def test_rows_cells_and_faults_choose() -> None:
    assert chosen_cells([]) == list(CELLS)
    assert {cell.way.path for cell in chosen_cells(["M04"])} == {"produce"}
    assert [cell.id for cell in chosen_cells(["copy.exactly-once.disk-full"])] == ["copy.exactly-once.disk-full"]
    assert all("kill-broker" in cell.kinds for cell in chosen_cells([], fault="kill_broker"))
    assert {cell.fault.name for cell in chosen_cells([], fault="disk full")} == {"disk full"}


@pytest.mark.parametrize(
    ("names", "fault", "words"),
    [
        (["M99"], "", "there is no cell for M99"),
        ([], "earthquake", "no fault is called 'earthquake'"),
        (["M04"], "kill-broker", "no cell of M04 has the fault"),
    ],
)
def test_what_is_not_there_is_refused(names: list[str], fault: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        chosen_cells(names, fault=fault)


def cell_of(name: str) -> Cell:
    (found,) = chosen_cells([name])
    return found


def test_a_lost_acknowledgement(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = ["produce.at-least-once.answers-lost-at-work", "produce.exactly-once.answers-lost-at-work"]
    runs, page = tmp_path / "runs", tmp_path / "page.html"
    options = ["--runs", str(runs), "--seed", "7", "--format", "json", "--html", str(page)]
    assert main(["drill", *names, *options]) == ExitCode.HELD
    found = json.loads(capsys.readouterr().out)
    plain, idempotent = found["matrix"]
    assert (plain["observed"]["duplicated"], idempotent["observed"]["duplicated"]) == (1, 0)
    assert {one["verdict"] for one in found["matrix"]} == {"HELD"}
    assert all(one["fired"] and all(one["fired"].values()) for one in found["matrix"])
    assert plain["command"] == f"semel drill {names[0]} --seed 7"
    assert 0 < max(one["seconds"] for one in found["matrix"]) <= found["seconds"]
    assert all(name in page.read_text() for name in names)
    (folder,) = runs.iterdir()
    assert found["run"] == str(folder)
    schedule, journal = ((folder / name).read_text().splitlines() for name in ("schedule.jsonl", "journal.jsonl"))
    assert [json.loads(line) for line in schedule] == [cell_of(name).schedule(7) for name in names]
    assert [json.loads(line)["verdict"] for line in journal] == ["HELD", "HELD"]


def test_a_planted_mistake_is_broken(tmp_path: Path) -> None:
    """Idempotence declared and not used."""
    cell = cell_of("produce.exactly-once.answers-lost-at-work")
    wrong = replace(cell, way=replace(SESSION, life=send_at_least_once))
    verdict, why = judge(EXACTLY, run_cell(wrong, 1, tmp_path))
    assert verdict is Verdict.BROKEN
    assert why == "1 duplicated, which exactly_once does not allow"


def test_a_fault_that_never_falls_is_unknown(tmp_path: Path) -> None:
    cell = cell_of("produce.exactly-once.answers-lost-at-work")
    spared = replace(cell, way=replace(SESSION, moment="never"))
    assert judge(EXACTLY, run_cell(spared, 1, tmp_path)) == (Verdict.UNKNOWN, "the fault was not felt")


@pytest.mark.full
def test_a_quick_run_repeats(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Two runs of one seed, one with two cells at once: the same schedule, byte for byte, and the same verdicts."""
    schedules, verdicts = [], []
    for jobs in ("1", "2"):
        runs = tmp_path / jobs
        code = main(["drill", "--quick", "-j", jobs, "--runs", str(runs), "--format", "json"])
        found = json.loads(capsys.readouterr().out)
        assert code == ExitCode.HELD, [one for one in found["matrix"] if one["verdict"] != "HELD"]
        verdicts.append([(one["cell"], one["verdict"]) for one in found["matrix"]])
        (folder,) = runs.iterdir()
        schedules.append((folder / "schedule.jsonl").read_bytes())
    assert schedules[0] == schedules[1]
    assert verdicts[0] == verdicts[1]
