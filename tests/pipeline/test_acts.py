"""`semel pipeline reset` and `release`: what they show, ask and change, and what a crash or a second one leaves."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.engine.embedded import Cluster
from semel.errors import ConfigError, FencedError, SinkError
from semel.pipeline.acts import Reset
from semel.pipeline.folder import open_checkpoint
from semel.pipeline.plan import To
from semel.sinks.kafka.evidence import topic_ids
from semel.sinks.recovery import Plan
from semel.wire.admin import delete_group
from semel.wire.group_offsets import commit_offsets
from semel.wire.topology import TopicPartition
from tests.pipeline.staged import Staged
from tests.support.checkpoints import kafka_line, semel_line, write_checkpoint
from tests.support.group_offsets import delete_offsets, reset_offsets
from tests.support.topics import create_topic
from tests.wire.empty_micro_batches import open_session, write_run

Out = pytest.CaptureFixture[str]
WAIT_S_MAX = 60


def rolled_back(staged: Staged) -> None:
    """The checkpoint is that of one micro-batch before, and there is new input."""
    for name in ("offsets/1", "commits/1"):
        (staged.folder / name).unlink()
    staged.send(5)


def row_of_next(staged: Staged, number: int, end: int) -> str:
    """What the sink decides about the micro-batch that the checkpoint leads to."""
    position = open_checkpoint(str(staged.folder)).position
    assert position is not None
    begin = set((position.offsets or {}).values())
    assert len(begin) == 1
    return staged.decide(staged.session(), staged.micro_batch(number, end, begin.pop())).row


# --- to the ledger


@pytest.mark.parametrize("is_semel", [False, True])
def test_a_checkpoint_goes_on_where_the_output_ends(
    cluster: Cluster, tmp_path: Path, capsys: Out, is_semel: bool
) -> None:
    staged = Staged.level(cluster, tmp_path, is_semel=is_semel)
    rolled_back(staged)
    held = staged.ledger()
    assert row_of_next(staged, 1, 25) == "D18"
    assert staged.run("reset", "--to", "ledger", "--checkpoint", str(tmp_path), "--yes") == ExitCode.HELD
    told = capsys.readouterr()
    assert "0 offsets would be repeated, 0 lost" in told.out
    assert "fenced" in told.err
    assert staged.ledger() == held
    assert row_of_next(staged, 2, 25) == "D10"
    code, status = staged.status(capsys)
    assert (code, status["next"][0]["row"]) == (ExitCode.HELD, "D10")
    assert status["checkpoint"]["last_committed"] == 1


def test_a_planned_micro_batch_is_replaced(staged: Staged, capsys: Out) -> None:
    """A start that was refused has left its plan behind."""
    staged.save([10, 25], committed=0)
    (staged.folder / "commits" / "1").unlink()
    staged.send(5)
    assert staged.status(capsys)[0] == ExitCode.BROKEN
    assert staged.run("reset", "--to", "ledger", "--checkpoint", str(staged.folder), "--yes") == ExitCode.HELD
    assert staged.status(capsys)[0] == ExitCode.HELD
    assert row_of_next(staged, 2, 25) == "D10"


def test_a_checkpoint_that_is_ahead_goes_back(staged: Staged, capsys: Out) -> None:
    staged.send(5)
    staged.save([10, 20, 25], committed=2)
    assert staged.status(capsys)[1]["next"][0]["row"] == "D09"
    assert staged.run("reset", "--to", "ledger", "--checkpoint", str(staged.folder), "--yes") == ExitCode.HELD
    assert row_of_next(staged, 4, 25) == "D10"


def test_a_running_driver_is_fenced(staged: Staged, capsys: Out) -> None:
    driver = staged.commit(2, 20, 20)
    micro_batch = staged.micro_batch(3, 25, 20)
    staged.send(5)
    staged.decide(driver, micro_batch)
    driver.begin()
    assert staged.run("reset", "--to", "ledger", "--checkpoint", str(staged.folder), "--yes") == ExitCode.HELD
    told = capsys.readouterr()
    assert "a transaction is open since" in told.out
    assert "stops at its next micro-batch" in told.err
    with pytest.raises(FencedError):
        driver.write_ledger(micro_batch)
    with pytest.raises(FencedError):
        driver.own()


def test_a_pipeline_that_went_on_after_it_was_shown(staged: Staged) -> None:
    """To the ledger that is no harm: the checkpoint goes to the newer end. Elsewhere nobody agreed to what it means."""
    told: list[str] = []
    reset = Reset(cluster=staged.wire, name=staged.name, to=To.LEDGER, checkpoint=str(staged.folder))
    _, shown, _ = reset.look()
    staged.send(5)
    staged.commit(2, 25, 20)
    assert set(reset.carry_out(shown, told.append).positions.values()) == {25}
    assert any("went on until it was fenced" in one for one in told)
    elsewhere = Reset(cluster=staged.wire, name=staged.name, to=To.EARLIEST)
    before = staged.ledger()
    with pytest.raises(SinkError, match="went on after its position was shown"):
        elsewhere.carry_out(shown, told.append)
    assert staged.ledger() == before


# --- elsewhere, on purpose


def test_everything_again(staged: Staged, capsys: Out) -> None:
    assert staged.run("reset", "--to", "earliest", "--checkpoint", str(staged.folder), "--yes") == ExitCode.HELD
    assert "40 offsets would be repeated, 0 lost" in capsys.readouterr().out
    ledger = staged.ledger()
    assert ledger.last is not None
    assert (ledger.last.number, ledger.last.micro_batch_id, ledger.last.targets) == (3, 2, (staged.output,))
    assert {(one.offset_first, one.offset_next) for one in ledger.held.values()} == {(0, 0)}
    assert row_of_next(staged, 3, 20) == "D10"
    assert staged.status(capsys)[1]["next"][0]["expected"] == "run"


def test_everything_again_from_a_new_checkpoint(staged: Staged, capsys: Out) -> None:
    """Then the old one is refused, and may be moved after all."""
    assert staged.run("reset", "--to", "earliest", "--yes") == ExitCode.HELD
    assert '.option("startingOffsets", "ledger")' in capsys.readouterr().err
    new = staged.decide(staged.session(), staged.micro_batch(0, 20, 0, query_id="another"))
    assert new.row == "D10"
    staged.send(5)
    assert row_of_next(staged, 2, 25) == "D09"
    assert staged.status(capsys)[1]["next"][0]["row"] == "D09"
    assert staged.run("reset", "--to", "ledger", "--checkpoint", str(staged.folder), "--yes") == ExitCode.HELD
    assert row_of_next(staged, 3, 25) == "D10"


def test_from_offsets_of_ones_own(staged: Staged, capsys: Out) -> None:
    """Back in one partition, forward in the other; each is counted."""
    staged.send(5)
    wanted = json.dumps({staged.source: {"0": 15, "1": -1}})
    arguments = ["--to", "offsets", "--offsets", wanted, "--format", "json"]
    assert staged.run("reset", *arguments, "--dry-run") == ExitCode.HELD
    moves = json.loads(capsys.readouterr().out)["moves"]
    assert [(row["goes_to"], row["repeated"], row["lost"]) for row in moves] == [(15, 5, 0), (25, 0, 5)]
    assert staged.run("reset", *arguments, "--yes") == ExitCode.HELD
    assert json.loads(capsys.readouterr().out)["done"]
    held = staged.ledger().held
    assert [(one.offset_first, one.offset_next) for _, one in sorted(held.items())] == [(15, 15), (25, 25)]


@pytest.mark.parametrize(
    ("partition", "offset", "told"), [("0", 99, "ends at offset 20"), ("7", 1, "does not read"), ("1", -3, "--offsets")]
)
def test_offsets_that_are_not_there(staged: Staged, capsys: Out, partition: str, offset: int, told: str) -> None:
    before = staged.snapshot()
    wanted = json.dumps({staged.source: {partition: offset}})
    assert staged.run("reset", "--to", "offsets", "--offsets", wanted, "--yes") == ExitCode.USAGE
    assert told in capsys.readouterr().err
    assert staged.snapshot() == before


# --- crashes


class Crash(Exception):
    """Stands for the death of the command."""


@pytest.mark.parametrize("step", ["fenced", "ledger moved", "offsets written"])
@pytest.mark.parametrize("to", [To.EARLIEST, To.LEDGER])
def test_a_crash_between_two_steps(staged: Staged, capsys: Out, step: str, to: To) -> None:
    """E20: what is left is refused or right, `status` says which, and another reset brings the two together."""
    if to is To.LEDGER:
        rolled_back(staged)

    def die(done: str) -> None:
        if done == step:
            raise Crash(step)

    reset = Reset(cluster=staged.wire, name=staged.name, to=to, checkpoint=str(staged.folder), on_step=die)
    _, shown, folder = reset.look()
    assert folder is not None
    try:
        reset.carry_out(shown, lambda _: None)
        assert step != "fenced"
    except Crash:
        assert step != "offsets written"
    if step == "offsets written":
        (staged.folder / "commits" / str(folder.next_id)).unlink()
    staged.send(5)
    code, told = staged.status(capsys)
    first = told["next"][0]
    end = max(one["latest"] for one in told["sources"])
    folder = open_checkpoint(str(staged.folder))
    if folder.pending is None:
        assert row_of_next(staged, folder.next_id, end) == first["row"]
    else:
        assert first["expected"] in ("run", "skip", "refuse")
    assert code == (ExitCode.BROKEN if first["expected"] == "refuse" else ExitCode.HELD)
    assert staged.run("reset", "--to", "ledger", "--checkpoint", str(staged.folder), "--yes") == ExitCode.HELD
    assert staged.status(capsys)[0] == ExitCode.HELD
    assert row_of_next(staged, open_checkpoint(str(staged.folder)).next_id, end) == "D10"


# --- agreeing


def refused_before_anything(staged: Staged, *more: str) -> None:
    before = staged.snapshot()
    assert staged.run("reset", "--to", "earliest", "--checkpoint", str(staged.folder), *more) == ExitCode.USAGE
    assert staged.snapshot() == before


def test_nobody_agreed(staged: Staged, capsys: Out) -> None:
    """The tests have no terminal."""
    refused_before_anything(staged)
    assert "--yes, or a terminal" in capsys.readouterr().err


def test_a_dry_run_changes_nothing(staged: Staged) -> None:
    session = staged.session()
    session.own()
    before = staged.snapshot()
    assert staged.run("reset", "--to", "earliest", "--dry-run") == ExitCode.HELD
    assert staged.snapshot() == before
    session.own()  # not fenced


@contextmanager
def asked(arguments: list[str]) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """The command on a terminal, at its question."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "semel", *arguments],
        stdin=end,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(end)
    try:
        assert process.stderr is not None
        seen = ""
        while "to go on (" not in seen:
            one = process.stderr.read(1)
            assert one, seen
            seen += one
        yield process, terminal
    finally:
        process.kill()
        process.wait(WAIT_S_MAX)
        os.close(terminal)
        if process.stderr is not None:
            process.stderr.close()


@pytest.mark.parametrize("answer", ["right", "wrong", "nothing", "ctrl-c"])
def test_the_question(staged: Staged, answer: str) -> None:
    before = staged.snapshot()
    with asked(staged.arguments("reset", "--to", "earliest", "--checkpoint", str(staged.folder))) as (
        process,
        terminal,
    ):
        match answer:
            case "right":
                os.write(terminal, f"{staged.name}\n".encode())
            case "wrong":
                os.write(terminal, b"yes\n")
            case "nothing":
                os.write(terminal, b"\x04")
            case _:
                process.send_signal(signal.SIGINT)
        code = process.wait(WAIT_S_MAX)
    wanted = {"right": ExitCode.HELD, "ctrl-c": ExitCode.INTERRUPTED}.get(answer, ExitCode.USAGE)
    assert code == wanted
    assert (staged.snapshot() == before) == (answer != "right")


# --- what is refused


def test_two_at_once(staged: Staged, capsys: Out) -> None:
    arguments = ["--to", "ledger", "--checkpoint", str(staged.folder), "--yes"]
    with open_checkpoint(str(staged.folder)).held():
        assert staged.run("reset", *arguments) == ExitCode.ENVIRONMENT
        assert "another reset works" in capsys.readouterr().err
    assert staged.run("reset", *arguments) == ExitCode.HELD


def test_of_two_that_move_the_ledger_one_does(staged: Staged) -> None:
    """The second takes over between the first one's fence and its commit."""

    wanted = json.dumps({staged.source: {"0": 5}})

    def second(step: str) -> None:
        if step == "fenced":
            assert staged.run("reset", "--to", "offsets", "--offsets", wanted, "--yes") == ExitCode.HELD

    first = Reset(cluster=staged.wire, name=staged.name, to=To.EARLIEST, on_step=second)
    with pytest.raises((SinkError, FencedError)):
        first.carry_out(first.look()[1], lambda _: None)
    assert staged.ledger().offsets[TopicPartition(staged.source, 0)] == 5


def test_a_ledger_that_moves_under_the_reset(staged: Staged) -> None:
    """E11: a driver that is declared at least once cannot be fenced. What was read does not count any more."""

    def go_on(step: str) -> None:
        if step == "looked":
            entries = {place: replace(row, offset_next=21) for place, row in staged.committed().items()}
            commit_offsets(staged.wire, staged.name, entries, deadline=staged.wire.deadline())

    reset = Reset(cluster=staged.wire, name=staged.name, to=To.EARLIEST, on_step=go_on)
    with pytest.raises(SinkError, match="the ledger holds more than was read; it is not moved"):
        reset.carry_out(reset.look()[1], lambda _: None)
    assert set(staged.ledger().offsets.values()) == {21}


def test_a_stateful_query(staged: Staged, capsys: Out) -> None:
    (staged.folder / "state").mkdir()
    refused_before_anything(staged, "--yes")
    assert "its state belongs to the offsets it stands at" in capsys.readouterr().err


def test_another_pipelines_checkpoint(staged: Staged, capsys: Out) -> None:
    staged.save([10, 20], committed=1, pipeline="another")
    refused_before_anything(staged, "--yes")
    assert "belongs to pipeline 'another'" in capsys.readouterr().err


def test_a_checkpoint_of_other_topics(staged: Staged, capsys: Out) -> None:
    line = kafka_line({TopicPartition("elsewhere", 0): 3})
    write_checkpoint(staged.folder, [line, line], committed=1, pipeline=staged.name)
    refused_before_anything(staged, "--yes")
    assert "the query of this checkpoint elsewhere" in capsys.readouterr().err


def test_two_sources(cluster: Cluster, tmp_path: Path, capsys: Out) -> None:
    """Each gets its own partitions; a topic that the ledger does not know begins at its beginning."""
    staged, other = Staged.level(cluster, tmp_path), Staged.level(cluster, tmp_path / "other")
    lines = [[kafka_line(staged.at(number)), kafka_line(other.at(number))] for number in (10, 20)]
    write_checkpoint(tmp_path, lines, committed=1, pipeline=staged.name)
    assert staged.run("reset", "--to", "ledger", "--checkpoint", str(tmp_path), "--yes") == ExitCode.HELD
    position = open_checkpoint(str(tmp_path)).position
    assert position is not None
    assert {name: one.offsets_next for name, one in (position.known or {}).items()} == {
        "0": staged.at(20),
        "1": other.at(0),
    }


# Whatever is imported on the way may lie where that other user cannot read: a dry run loads it first.
AS_NOBODY = """
import os, sys
from semel.cli import main
assert main([*sys.argv[1:], "--dry-run"]) == 0
if os.geteuid() == 0:
    os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("is_semel", [False, True])
def test_one_of_two_topics_was_created_again(cluster: Cluster, tmp_path: Path, capsys: Out, is_semel: bool) -> None:
    """The new one is read from its beginning, the other goes on where it was."""
    staged, other = Staged.new(cluster, tmp_path), Staged.new(cluster, tmp_path)
    for one in (staged, other):
        one.send(20)
    ends, begins = staged.at(20) | other.at(20), staged.at(0) | other.at(0)
    first = replace(staged.micro_batch(0, 20, 0), offsets=ends, offsets_before=begins)
    staged.commit_it(first)
    ids = topic_ids(staged.wire, [staged.source, other.source])
    line = semel_line(ends, ids, begins) if is_semel else kafka_line(ends)
    write_checkpoint(tmp_path, [line], committed=0, pipeline=staged.name)
    other.recreate_source()
    other.send(25)
    code, told = staged.status(capsys)
    assert code == ExitCode.BROKEN
    assert [one["row"] for one in told["next"]] == (["source", "D10"] if is_semel else ["D08"])
    assert staged.run("reset", "--to", "ledger", "--checkpoint", str(tmp_path), "--yes") == ExitCode.HELD
    position = open_checkpoint(str(tmp_path)).position
    assert position is not None
    assert position.offsets == staged.at(20) | other.at(0)
    assert staged.status(capsys)[0] == ExitCode.HELD
    after = replace(first, id=2, offsets=staged.at(20) | other.at(25), offsets_before=position.offsets)
    assert staged.decide(staged.session(), after).row == "D10"


def test_a_folder_that_may_not_be_written(staged: Staged) -> None:
    """As another user, since root may write anywhere. Nothing is fenced and nothing moved."""
    session = staged.session()
    session.own()
    with TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(staged.folder, folder, dirs_exist_ok=True)
        for one in (folder, folder / "offsets", folder / "commits"):
            one.chmod(0o555)
        arguments = staged.arguments("reset", "--to", "earliest", "--yes", "--checkpoint", name)
        ended = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, *arguments],
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
            check=False,
        )
        for one in (folder, folder / "offsets", folder / "commits"):
            one.chmod(0o755)
    assert (ended.returncode, "cannot be written to" in ended.stderr) == (ExitCode.ENVIRONMENT, True), ended.stderr
    session.own()


def test_no_ledger(staged: Staged, capsys: Out) -> None:
    for more in (["--to", "earliest"], ["--to", "ledger", "--checkpoint", str(staged.folder)]):
        assert staged.run("reset", *more, "--yes", name="nobody") == ExitCode.USAGE
        assert "has no ledger" in capsys.readouterr().err


# --- a ledger that Kafka's own tools have changed


def test_entries_that_were_deleted_alone(staged: Staged, capsys: Out) -> None:
    """What the output holds of these is not known: no reset takes it for nothing, and where it goes must be said."""
    delete_offsets(staged.cluster.bootstrap, staged.name, staged.at(0))
    code, told = staged.status(capsys)
    assert (code, told["next"][0]["row"]) == (ExitCode.BROKEN, "D22")
    before, folder = staged.snapshot(), ("--checkpoint", str(staged.folder))
    one = json.dumps({staged.source: {"0": 20}})
    for more in (("--to", "ledger"), ("--to", "offsets", "--offsets", one)):
        capsys.readouterr()
        assert staged.run("reset", *more, *folder, "--yes") == ExitCode.USAGE
        assert "has no entry of" in capsys.readouterr().err
        assert staged.snapshot() == before
    assert staged.run("reset", "--to", "earliest", *folder, "--dry-run") == ExitCode.HELD
    assert "40 offsets would be repeated, 0 lost" in capsys.readouterr().out
    both = json.dumps({staged.source: {"0": 20, "1": 20}})
    assert staged.run("reset", "--to", "offsets", "--offsets", both, *folder, "--yes") == ExitCode.HELD
    staged.send(1)
    code, told = staged.status(capsys)
    assert (code, told["next"][0]["row"]) == (ExitCode.HELD, "D10")


def test_a_ledger_that_was_reset(staged: Staged, capsys: Out) -> None:
    """Every command says what to do; after that the pipeline has no ledger, and that is said too."""
    reset_offsets(staged.cluster.bootstrap, staged.name, staged.at(0), 0)
    for more in (["status"], ["reset", "--to", "earliest", "--yes"], ["release", "--yes"]):
        assert staged.run(*more) == ExitCode.USAGE
        way_out = (
            f"kafka-consumer-groups.sh --bootstrap-server {staged.cluster.bootstrap} --delete --group {staged.name}"
        )
        assert way_out in capsys.readouterr().err
    delete_group(staged.wire, staged.name, staged.wire.deadline())
    code, told = staged.status(capsys, "--output", staged.output)
    assert (code, told["next"][0]["row"]) == (ExitCode.BROKEN, "D04")


# --- release


def test_a_name_is_given_up(staged: Staged, capsys: Out) -> None:
    driver = staged.session()
    driver.own()
    assert staged.run("release") == ExitCode.USAGE, "nobody agreed"
    assert staged.committed()
    assert staged.run("release", "--yes") == ExitCode.HELD
    told = capsys.readouterr()
    assert "commit 2 was micro-batch 1" in told.out
    assert "the ledger is deleted" in told.err
    assert not staged.committed()
    with pytest.raises(FencedError):
        driver.own()
    assert staged.status(capsys)[1]["ledger"]["state"] == "none"
    assert staged.run("release", "--yes") == ExitCode.HELD, "a second time there is only the transactional id left"


def test_the_run_ids_of_batch_jobs_go_with_the_name(cluster: Cluster, capsys: Out) -> None:
    """A name that is used again must not skip what its earlier life has written; other pipelines keep theirs."""
    name, other = "nightly", "nightly.run"
    for topic in (name, other):
        create_topic(cluster, topic)
        for run_id in ("monday", "tuesday"):
            assert write_run(open_session(cluster, topic), run_id) is Plan.RUN
    release = ["pipeline", "release", name, "--bootstrap", cluster.bootstrap, "--yes"]
    assert main(release) == ExitCode.HELD
    assert (
        "2 run ids of batch jobs are deleted: under the same run id a run is written again" in capsys.readouterr().err
    )
    assert write_run(open_session(cluster, name), "monday") is Plan.RUN
    assert write_run(open_session(cluster, other), "monday") is Plan.SKIP
    # Somebody has deleted the ledger alone: the run ids are still there to be given up.
    client = open_session(cluster, name).cluster
    delete_group(client, name, client.deadline())
    assert main(release) == ExitCode.HELD
    assert "1 run id of a batch job is deleted" in capsys.readouterr().err
    assert write_run(open_session(cluster, name), "monday") is Plan.RUN


def test_a_name_that_nobody_has_is_not_given_up(staged: Staged, capsys: Out) -> None:
    assert staged.run("release", "--yes", name="nobody-at-all") == ExitCode.USAGE
    assert "nothing is known of a pipeline 'nobody-at-all'" in capsys.readouterr().err


def test_one_that_cannot_be_fenced(cluster: Cluster, tmp_path: Path, capsys: Out) -> None:
    """At least once owns nothing: its ledger is written without a transaction."""
    staged = Staged.new(cluster, tmp_path)
    session = staged.session()
    micro_batch = staged.micro_batch(0, 0, 0)
    session.read_ledger(micro_batch)
    session.commit_ledger(micro_batch)
    assert staged.run("release", "--yes", "--format", "json") == ExitCode.HELD
    told = capsys.readouterr()
    assert "cannot be fenced" in told.err
    assert json.loads(told.out)["released"]
    assert not staged.committed()


def test_no_checkpoint_to_move(staged: Staged) -> None:
    with pytest.raises(ConfigError, match="none is named"):
        Reset(cluster=staged.wire, name=staged.name, to=To.LEDGER).look()
