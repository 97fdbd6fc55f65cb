"""What a table of starts cannot say: acts beside a query that runs, several acts in turn, and chains of advice.

Every way ends in a run that is exact, counted by an independent reader. Holds E13, E15, E17 and E18.
"""

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import semel
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.sinks.base import CommitStep
from tests.spark.recovery.operated import Operated, counts

pytestmark = pytest.mark.full
BOTH = pytest.mark.parametrize("format_", ["semel", "kafka"])
BATCH = 30


class Once:
    """Does something when the first micro-batch is committed."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self.is_done = False

    def __call__(self, step: CommitStep) -> None:
        if step is CommitStep.COMMITTED and not self.is_done:
            self.is_done = True
            self._act()


@pytest.fixture
def pipeline(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, format_: str) -> Operated:
    return Operated.new(spark, cluster.bootstrap, tmp_path, format_=format_, is_stateful=False)


def run_beside(pipeline: Operated, act: Callable[[], None]) -> str | None:
    """Run over new input, in two micro-batches at least; `act` happens between them. Gives the query's error."""
    done = Once(act)
    query = pipeline.job.start(done, trigger={"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
    except StreamingQueryException as error:
        return str(error)
    finally:
        query.stop()
        assert done.is_done
    return None


def reset(pipeline: Operated, failure: str = "", to: str = "ledger") -> None:
    """Follow the command that an error names, or run the one that it would be."""
    named = re.search(r"you want +semel (pipeline reset .*?); or a new checkpoint folder", failure)
    place = ["--bootstrap", pipeline.job.bootstrap, "--checkpoint", pipeline.job.checkpoint]
    words = shlex.split(named[1]) if named else ["pipeline", "reset", pipeline.job.pipeline, "--to", to, *place]
    assert main([*words, "--yes"]) == ExitCode.HELD


# --- beside a query that runs


@pytest.mark.parametrize("format_", ["kafka"])
def test_a_source_topic_is_created_again_and_filled_beyond_the_offset(pipeline: Operated) -> None:
    """Spark's own source goes on in the middle of the new topic; what lies before that would be lost."""
    pipeline.live(BATCH)
    pipeline.send(BATCH)

    def recreate() -> None:
        pipeline.recreate_source()
        pipeline.send(4 * BATCH)

    failure = run_beside(pipeline, recreate) or ""
    assert "and lose records" in failure
    assert pipeline.output_size() == 2 * BATCH
    reset(pipeline, failure)
    pipeline.job.finish()
    pipeline.check()


@BOTH
def test_entries_are_deleted(pipeline: Operated) -> None:
    """A driver knows what it has committed, and commits all of it again."""
    pipeline.live(BATCH)
    pipeline.send(BATCH)

    def delete() -> None:
        pipeline.delete_entries()
        pipeline.send(BATCH)

    assert run_beside(pipeline, delete) is None
    pipeline.send(BATCH)
    pipeline.job.finish()
    pipeline.check()


@BOTH
def test_the_whole_ledger_is_deleted(pipeline: Operated) -> None:
    pipeline.live(BATCH)
    pipeline.send(BATCH)

    def delete() -> None:
        pipeline.delete_ledger()
        pipeline.send(BATCH)

    assert run_beside(pipeline, delete) is None
    pipeline.send(BATCH)
    pipeline.job.finish()
    pipeline.check()


@BOTH
def test_the_ledger_is_reset(pipeline: Operated) -> None:
    """By `kafka-consumer-groups --reset-offsets`: the query stops, and the words lead through two errors to the end."""
    pipeline.live(BATCH)
    pipeline.send(BATCH)

    def act() -> None:
        pipeline.reset_entries()
        pipeline.send(BATCH)

    failure = run_beside(pipeline, act) or ""
    before = pipeline.output_size()
    name, address = pipeline.job.pipeline, pipeline.job.bootstrap
    assert f"kafka-consumer-groups.sh --bootstrap-server {address} --delete --group {name}" in failure
    assert "that no pipeline wrote" in (pipeline.job.run() or "")
    pipeline.delete_ledger()  # what that command does
    failure = pipeline.job.run() or ""
    assert pipeline.output_size() == before
    pipeline.follow(failure, 'KafkaSink(..., ledger_missing="run")')
    pipeline.job.finish()
    pipeline.check()


# --- acts in turn


@BOTH
def test_two_checkpoints_take_turns(pipeline: Operated) -> None:
    """Each is behind the other whenever its turn comes: refused by the first start, and a reset lets it go on."""
    pipeline.live(BATCH)
    pipeline.back_up("twin")
    folders = [pipeline.job.checkpoint, str(pipeline.backups["twin"])]
    for turn in range(4):
        pipeline.job.checkpoint = folders[turn % 2]
        pipeline.send(BATCH)
        failure = pipeline.job.run()
        if turn:
            assert "and repeat records" in (failure or "")
            reset(pipeline, failure or "")
            pipeline.job.finish()
        pipeline.check()


@pytest.mark.parametrize("format_", ["semel"])
def test_two_checkpoints_of_a_source_that_knows_its_pipeline(pipeline: Operated) -> None:
    """E15: each skips what the other has written."""
    pipeline.live(BATCH)
    pipeline.know_pipeline()
    pipeline.back_up("twin")
    folders = [pipeline.job.checkpoint, str(pipeline.backups["twin"])]
    for turn in range(4):
        pipeline.job.checkpoint = folders[turn % 2]
        pipeline.send(BATCH)
        pipeline.job.finish()
        pipeline.check()


@BOTH
def test_at_least_once_from_an_older_checkpoint_and_then_exactly_once(pipeline: Operated) -> None:
    """What the weaker guarantee repeats is its affair; what it has not repeated is in the output all the same."""
    pipeline.live(BATCH, BATCH, BATCH)
    pipeline.restore("1")
    pipeline.job.guarantee, pipeline.job.per_trigger = "at_least_once", 10
    pipeline.die(CommitStep.COMMITTED)
    repeated = pipeline.output_size() - 3 * BATCH
    assert 0 < repeated < 2 * BATCH
    pipeline.job.guarantee = "exactly_once"
    pipeline.job.finish()  # small micro-batches, each of which lies wholly in the output
    pipeline.send(BATCH)
    pipeline.job.finish()
    assert pipeline.output_size() == 4 * BATCH + repeated


@BOTH
@pytest.mark.parametrize("to", ["ledger", "earliest"])
def test_a_reset_and_then_the_old_checkpoint(pipeline: Operated, to: str) -> None:
    """The backup knows nothing of the reset: it is behind its output, or ahead of it, and never taken for level."""
    pipeline.live(BATCH, BATCH)
    pipeline.back_up("old")
    reset(pipeline, to=to)
    pipeline.send(BATCH)
    if to == "ledger":
        pipeline.job.finish()
    before = pipeline.output_size()
    pipeline.restore("old")
    pipeline.send(BATCH)
    failure = pipeline.job.run() or ""
    assert ("and repeat records" if to == "ledger" else "and lose records") in failure
    assert pipeline.output_size() == before
    reset(pipeline, failure)
    pipeline.job.finish()
    if to == "earliest":  # on purpose: what was there comes once more
        pipeline.sent += pipeline.sent[: 2 * BATCH]
    pipeline.check_numbers()


@pytest.mark.parametrize("format_", ["semel"])
def test_another_name(pipeline: Operated) -> None:
    """The checkpoint is the old name's. A new one begins where the old one's output ends, if that is said by name."""
    pipeline.live(BATCH)
    pipeline.send(BATCH)
    old, pipeline.job.pipeline = pipeline.job.pipeline, f"{pipeline.job.pipeline}-renamed"
    failure = pipeline.job.run() or ""
    pipeline.follow(failure, f"a new checkpoint folder for pipeline '{pipeline.job.pipeline}'")
    pipeline.job.source_options |= {"startingOffsets": "ledger", "ledger": old}
    failure = pipeline.job.run() or ""
    assert "has no ledger, but its output" in failure
    assert pipeline.output_size() == BATCH
    pipeline.job.checkpoint += "-again"
    pipeline.follow(failure, 'KafkaSink(..., ledger_missing="run")')
    pipeline.job.finish()
    pipeline.check()


# --- checkpoints that change places


@BOTH
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole folders", "what Spark has written"])
def test_two_pipelines_of_one_topic_swap_their_checkpoints(pipeline: Operated, is_whole: bool) -> None:
    """Each reads the same topic and stands elsewhere; the file with the pipeline's name may stay where it was."""
    pipeline.live(BATCH)
    job = replace(
        pipeline.job,
        pipeline=f"{pipeline.job.pipeline}-other",
        outputs=(pipeline.new_output(),),
        checkpoint=str(pipeline.folder / "other"),
    )
    other = replace(pipeline, job=job, sent=list(pipeline.sent))
    other.job.finish()
    other.check()
    pipeline.send(BATCH)
    pipeline.job.finish()
    swap(Path(pipeline.job.checkpoint), Path(other.job.checkpoint), is_whole=is_whole)
    pipeline.send(BATCH)
    for one, words in ((pipeline, "and repeat records"), (other, "and lose records")):
        before = one.output_size()
        failure = one.job.run() or ""
        assert ("belongs to pipeline" if is_whole else words) in failure
        assert one.output_size() == before
    swap(Path(pipeline.job.checkpoint), Path(other.job.checkpoint), is_whole=is_whole)
    other.sent = list(pipeline.sent)
    for one in (pipeline, other):
        one.job.finish()
        one.check()


@BOTH
def test_a_checkpoint_that_is_ahead_while_nothing_new_comes(
    pipeline: Operated, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start that has nothing to do writes nothing and looks at nothing; the status says it before, and a record."""
    pipeline.live(BATCH)
    pipeline.send(BATCH)
    pipeline.swap_checkpoint(["offsets", "commits", "metadata"])
    before = pipeline.output_size()
    assert pipeline.job.run() is None
    assert pipeline.output_size() == before
    place = ["--bootstrap", pipeline.job.bootstrap, "--checkpoint", pipeline.job.checkpoint]
    capsys.readouterr()
    assert main(["pipeline", "status", pipeline.job.pipeline, *place]) == ExitCode.BROKEN
    told = re.search(r"\(D09\): (.*)", capsys.readouterr().out)
    assert told
    pipeline.send(BATCH)
    failure = pipeline.job.run() or ""
    assert "and lose records" in failure
    assert pipeline.output_size() == before
    reset(pipeline, failure)
    pipeline.job.finish()
    pipeline.check()


def swap(one: Path, other: Path, *, is_whole: bool) -> None:
    """Exchange two checkpoints."""
    names = ["."] if is_whole else ["offsets", "commits", "metadata"]
    for name in names:
        between = one.parent / "between"
        shutil.move(one / name if name != "." else one, between)
        shutil.move(other / name if name != "." else other, one / name if name != "." else one)
        shutil.move(between, other / name if name != "." else other)


# --- what a checkpoint says that has only been planned


@BOTH
def test_the_status_of_a_query_with_state_that_was_refused_at_its_first_start(
    pipeline: Operated, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its folder has a plan and no commit; the words are those of the next start all the same."""
    pipeline.is_stateful, pipeline.job.shape, pipeline.job.output_mode = True, counts, "update"
    pipeline.live(BATCH)
    pipeline.send(BATCH)
    pipeline.lose_checkpoint("earliest")
    assert pipeline.job.run() is not None
    place = ["--bootstrap", pipeline.job.bootstrap, "--checkpoint", pipeline.job.checkpoint]
    capsys.readouterr()
    assert main(["pipeline", "status", pipeline.job.pipeline, *place]) == ExitCode.BROKEN
    told = capsys.readouterr().out
    refused = re.search(r"\(D16\): (.*)", told)
    assert refused, told
    assert refused[1] in (pipeline.job.run() or "")
