"""`semel sim`: what it prints and which code it leaves with."""

import json

import pytest

from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.history import Verdict
from semel.sim import summary as summary_module
from semel.sim.run import run_seed
from semel.sim.summary import Summary, summarize


def test_one_seed_tells_faults_laws_and_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seed", "3"]) == ExitCode.HELD
    told = capsys.readouterr().out
    assert "everything is healed" in told
    assert "no aborted read" in told
    assert told.endswith("HELD\n")


def test_json_has_the_digest_of_each_history(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seeds", "2", "--first", "3", "--format", "json"]) in (ExitCode.HELD, ExitCode.UNKNOWN)
    told = json.loads(capsys.readouterr().out)
    assert [one["seed"] for one in told["seeds"]] == [3, 4]
    assert told["seeds"][0]["digest"] == run_seed(3).digest


def test_a_broken_seed_is_named_with_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = summarize(run_seed(3))

    def run_one(seed: int) -> Summary:
        return Summary(
            seed=seed,
            verdict=Verdict.BROKEN if seed == 8 else Verdict.HELD,
            digest=held.digest,
            ops=held.ops,
            faults_fired=held.faults_fired,
            stuck="",
            weighed=held.weighed,
            breaches=("no loss: lost: everything",) if seed == 8 else (),
        )

    monkeypatch.setattr(summary_module, "_run_one", run_one)
    assert main(["sim", "--seeds", "3", "--first", "7"]) == ExitCode.BROKEN
    told = capsys.readouterr()
    assert "semel sim --seed 8" in told.out
    assert "semel sim --seed 8" in told.err
    assert "no loss: lost: everything" in told.out


@pytest.mark.parametrize(
    "wrong", [["--seeds", "0"], ["--seed", "-1"], ["--jobs", "0"], ["--seed", "1", "--seeds", "2"]]
)
def test_wrong_numbers_are_refused(wrong: list[str]) -> None:
    assert main(["sim", *wrong]) == ExitCode.USAGE
