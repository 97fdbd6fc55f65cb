"""`semel pipeline` on real pipelines: what `status` says happens, and after `reset` every record is there once.

Each situation is told, then tried; where the start is refused, `reset --to ledger` is the way out.
"""

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.sql import SparkSession

import semel
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.sinks.base import CommitStep
from tests.spark.recovery.operated import Operated

Out = pytest.CaptureFixture[str]
Act = Callable[[Operated], None]
BOTH = ("semel", "kafka")
GOES_ON = {"run", "skip", "compute"}


class Make(Protocol):
    """Makes a pipeline."""

    def __call__(self, format_: str, *, is_stateful: bool = False) -> Operated: ...


@pytest.fixture
def make(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> Make:
    folder = tmp_path / "with a blank"
    folder.mkdir()

    def made(format_: str, *, is_stateful: bool = False) -> Operated:
        return Operated.new(spark, cluster.bootstrap, folder, format_=format_, is_stateful=is_stateful)

    return made


def live(pipeline: Operated) -> None:
    pipeline.live(30, 30)


def restored(pipeline: Operated) -> None:
    """A backup of one micro-batch before, and new input."""
    live(pipeline)
    pipeline.restore("1")
    pipeline.send(20)


def restored_by_two(pipeline: Operated) -> None:
    pipeline.live(30, 30, 30)
    pipeline.restore("1")
    pipeline.send(20)


def refused_before(pipeline: Operated) -> None:
    """A start that was refused has left its plan in the checkpoint."""
    restored(pipeline)
    assert "repeat records" in (pipeline.job.run() or "")


def copied(pipeline: Operated) -> None:
    """A copy goes on, and then the checkpoint it was made of is started again."""
    live(pipeline)
    pipeline.back_up("copy")
    pipeline.send(20)
    pipeline.job.finish()
    pipeline.restore("copy")
    pipeline.send(20)


def new_from(starting: str) -> Act:
    """The folder was lost; the first start of a new one was refused and has left its plan there."""

    def act(pipeline: Operated) -> None:
        live(pipeline)
        pipeline.send(20)
        pipeline.lose_checkpoint(starting)
        assert "records" in (pipeline.job.run() or "")

    return act


def killed(step: CommitStep) -> Act:
    def act(pipeline: Operated) -> None:
        live(pipeline)
        pipeline.kill(step)
        pipeline.send(10)

    return act


def unfinished(pipeline: Operated) -> None:
    live(pipeline)
    pipeline.unfinish()
    pipeline.send(20)


def with_a_new_partition(pipeline: Operated) -> None:
    live(pipeline)
    pipeline.add_partition()
    pipeline.send(30)
    pipeline.job.finish()
    pipeline.restore("1")
    pipeline.send(20)


def expired(pipeline: Operated) -> None:
    """An older checkpoint, and what it stood at is not in the topic any more; the output has it."""
    live(pipeline)
    pipeline.restore("1")
    pipeline.expire_source()
    pipeline.send(20)


def recreated(pipeline: Operated) -> None:
    """With a topic Kafka deletes what groups have committed for it; the entry at home is left."""
    live(pipeline)
    pipeline.recreate_source()
    pipeline.send(90)


def without_ledger(pipeline: Operated) -> None:
    live(pipeline)
    pipeline.delete_ledger()
    pipeline.send(20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """How it comes about, and what `status` says first."""

    act: Act
    expected: str
    row: str
    formats: tuple[str, ...] = BOTH
    quick: str = ""

    @property
    def name(self) -> str:
        return f"{self.row} {self.act.__qualname__.partition('.')[0]}"


NEW_FROM_EARLIEST = new_from("earliest")
CASES = [
    Case(act=restored, expected="refuse", row="D18", quick="kafka"),
    Case(act=restored_by_two, expected="refuse", row="D18"),
    Case(act=refused_before, expected="refuse", row="D18"),
    Case(act=copied, expected="refuse", row="D18"),
    Case(act=NEW_FROM_EARLIEST, expected="refuse", row="D18"),
    Case(act=new_from("latest"), expected="refuse", row="D09"),
    Case(act=with_a_new_partition, expected="refuse", row="D18"),
    Case(act=expired, expected="refuse", row="D18"),
    Case(act=recreated, expected="refuse", row="source", formats=("semel",)),
    Case(act=recreated, expected="refuse", row="D08", formats=("kafka",)),
    Case(act=killed(CommitStep.OFFSETS_WRITTEN), expected="run", row="D10"),
    Case(act=killed(CommitStep.COMMITTED), expected="skip", row="D07", quick="semel"),
    Case(act=unfinished, expected="skip", row="D07"),
]


def _tier(case: Case, form: str) -> Sequence[pytest.MarkDecorator]:
    """Every case with one of the two sources in the full tier, with the other one in a soak."""
    if case.quick == form:
        return ()
    in_full = case.quick or case.formats[CASES.index(case) % len(case.formats)]
    return (pytest.mark.full,) if form == in_full or len(case.formats) == 1 else (pytest.mark.soak,)


PARAMETERS = [
    pytest.param(case, form, id=f"{case.name}, {form}", marks=_tier(case, form))
    for case in CASES
    for form in case.formats
]


def command(pipeline: Operated, verb: str, *more: str) -> int:
    place = ["--bootstrap", pipeline.job.bootstrap, "--checkpoint", pipeline.job.checkpoint]
    return main(["pipeline", verb, pipeline.job.pipeline, *place, *more])


def status(pipeline: Operated, capsys: Out, *more: str) -> tuple[int, list[dict[str, Any]]]:
    """The answers that hold for this source: it does not know its pipeline, and stops when data is lost."""
    capsys.readouterr()
    code = command(pipeline, "status", "--format", "json", *more)
    told = json.loads(capsys.readouterr().out)["next"]
    unmet = ("failOnDataLoss", "the source has .option")
    return code, [one for one in told if not any(word in (one["condition"] or "") for word in unmet)]


def reset(pipeline: Operated) -> None:
    assert command(pipeline, "reset", "--to", "ledger", "--yes") == ExitCode.HELD


def follow(pipeline: Operated, failure: str) -> None:
    """Run the command that the refusal names, as it stands there; where it names none, the one that it would be."""
    named = re.search(r"you want +(semel pipeline reset .*?); or a new checkpoint folder", failure)
    if named is None:
        reset(pipeline)
        return
    assert main([*shlex.split(named[1])[1:], "--yes"]) == ExitCode.HELD


@pytest.mark.parametrize(("case", "format_"), PARAMETERS)
def test_what_is_said_happens_and_a_reset_cures_it(make: Make, capsys: Out, case: Case, format_: str) -> None:
    pipeline = make(format_)
    case.act(pipeline)
    code, told = status(pipeline, capsys)
    assert (told[0]["expected"], told[0]["row"]) == (case.expected, case.row), told
    before = pipeline.output_size()
    if {one["expected"] for one in told} <= GOES_ON:
        assert code == ExitCode.HELD
        reset(pipeline)  # needless, and no harm
    else:
        assert code == ExitCode.BROKEN
        failure = pipeline.job.run()
        assert failure is not None, told
        has_past = case.row in ("D08", "D18") and case.act is not NEW_FROM_EARLIEST
        assert ("semel pipeline reset" in failure) == has_past
        assert told[-1]["reason"] in failure, failure
        assert pipeline.output_size() == before
        follow(pipeline, failure)
    assert status(pipeline, capsys)[0] == ExitCode.HELD
    pipeline.job.finish()
    pipeline.check()
    # And it goes on like that.
    pipeline.send(10)
    pipeline.job.finish()
    pipeline.check()


@pytest.mark.full
@pytest.mark.parametrize("act", [killed(CommitStep.OFFSETS_WRITTEN), killed(CommitStep.COMMITTED), unfinished])
def test_what_goes_on_needs_no_reset(make: Make, capsys: Out, act: Act) -> None:
    pipeline = make("semel")
    act(pipeline)
    assert status(pipeline, capsys)[0] == ExitCode.HELD
    pipeline.job.finish()
    pipeline.check()


@pytest.mark.full
def test_a_source_that_knows_its_pipeline(make: Make, capsys: Out) -> None:
    """E15, and the other answer: what the output holds is skipped."""
    pipeline = make("semel")
    restored(pipeline)
    pipeline.know_pipeline()
    command(pipeline, "status", "--format", "json")
    told = json.loads(capsys.readouterr().out)["next"]
    assert [one["expected"] for one in told if "the source has .option" in (one["condition"] or "")] == ["skip"]
    pipeline.job.finish()
    pipeline.check()


@pytest.mark.full
@pytest.mark.parametrize("format_", BOTH)
def test_a_stateful_query_is_told_and_not_moved(make: Make, capsys: Out, format_: str) -> None:
    """E16: the words of the sink, and no way out by offsets."""
    pipeline = make(format_, is_stateful=True)
    restored(pipeline)
    code, told = status(pipeline, capsys)
    assert (code, told[0]["row"]) == (ExitCode.BROKEN, "D16")
    assert told[0]["reason"] in (pipeline.job.run() or "")
    assert command(pipeline, "reset", "--to", "ledger", "--yes") == ExitCode.USAGE
    assert "keeps state" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.parametrize("format_", BOTH)
def test_without_a_ledger_nothing_is_moved(make: Make, capsys: Out, format_: str) -> None:
    pipeline = make(format_)
    without_ledger(pipeline)
    code, told = status(pipeline, capsys, "--output", pipeline.job.outputs[0])  # no ledger names it any more
    assert (code, told[0]["row"]) == (ExitCode.BROKEN, "D04")
    assert told[0]["reason"] in (pipeline.job.run() or "")
    assert command(pipeline, "reset", "--to", "ledger", "--yes") == ExitCode.USAGE
    assert "has no ledger" in capsys.readouterr().err
    # What the guide says instead, for an untouched checkpoint.
    pipeline.job.sink_options["ledger_missing"] = "run"
    pipeline.job.finish()
    pipeline.check()


@pytest.mark.full
@pytest.mark.parametrize("format_", BOTH)
def test_everything_again_on_purpose(make: Make, capsys: Out, format_: str) -> None:
    """Each record comes a second time, and only a second time."""
    pipeline = make(format_)
    live(pipeline)
    assert command(pipeline, "reset", "--to", "earliest", "--yes") == ExitCode.HELD
    assert "60 offsets would be repeated, 0 lost" in capsys.readouterr().out
    pipeline.job.finish()
    assert sorted(int(one.value or b"") for one in pipeline.job.output()) == sorted([*range(60), *range(60)])
    pipeline.send(10)
    pipeline.job.finish()
    assert pipeline.output_size() == 130


@pytest.mark.full
@pytest.mark.parametrize("format_", BOTH)
def test_a_running_query_is_fenced(make: Make, format_: str) -> None:
    """E18, a reset while it runs: it stops at its next micro-batch, and the next start is exact."""
    pipeline = make(format_)
    live(pipeline)
    query = pipeline.job.start(trigger={"processingTime": "0 seconds"})
    try:
        pipeline.send(20)
        query.processAllAvailable()
        reset(pipeline)
        pipeline.send(20)
        with pytest.raises(Exception, match=r"newer driver|fenced|FENCED|oncurrent|already"):
            query.awaitTermination(60)
    finally:
        query.stop()
    reset(pipeline)
    pipeline.job.finish()
    pipeline.check()
