"""`semel pipeline status`: what it says of ledger, owner, checkpoint and topics, and of the next start."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from semel.cli.exit_code import ExitCode
from semel.engine.embedded import Cluster
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, Run
from semel.sinks.recovery import Plan
from semel.sinks.run_ids import run_query_id
from semel.wire.group_offsets import CommittedOffset
from semel.wire.transaction import TransactionClient
from tests.pipeline.staged import CLIENT_S_MAX, Staged
from tests.support.checkpoints import QUERY

Out = pytest.CaptureFixture[str]


def test_a_pipeline_that_is_well(staged: Staged, capsys: Out) -> None:
    staged.send(5)
    code, told = staged.status(capsys)
    assert code == ExitCode.HELD
    assert told["ledger"]["state"] == "decided"
    assert told["ledger"]["last"] == {
        "query": QUERY,
        "micro_batch": 1,
        "number": 2,
        "outputs": [staged.output],
        "of_batch_jobs": False,
    }
    assert [(row["first"], row["next"]) for row in told["ledger"]["entries"]] == [(0, 20), (0, 20)]
    assert told["owner"]["state"] == "CompleteCommit"
    assert told["owner"]["open_since_ms"] is None
    assert told["checkpoint"]["planned"] == {staged.source: {"0": 20, "1": 20}}
    assert (told["checkpoint"]["last_planned"], told["checkpoint"]["last_committed"]) == (1, 1)
    assert (told["checkpoint"]["offset_log"], told["checkpoint"]["source_format"]) == ("v1", "kafka")
    columns = ("earliest", "output_next", "checkpoint", "latest", "lag")
    rows = [tuple(row[name] for name in columns) for row in told["sources"]]
    assert rows == [(0, 20, 20, 25, 5)] * 2
    assert [(row["topic"], row["exists"]) for row in told["outputs"]] == [(staged.output, True)]
    (start,) = told["next"]
    assert (start["expected"], start["row"], start["micro_batch"], start["is_waiting"]) == ("run", "D10", 2, False)


def test_it_is_read_by_people_too(staged: Staged, capsys: Out) -> None:
    assert staged.run("status", "--checkpoint", f"file:{staged.folder}") == ExitCode.HELD
    told = capsys.readouterr().out
    assert "run micro-batch 2 as soon as there is something to read (D10)" in told
    assert "commit 2 was micro-batch 1" in told
    assert f"{staged.source}-0" in told


def test_nothing_is_changed_or_fenced(staged: Staged, capsys: Out) -> None:
    session = staged.session()
    session.own()
    before = staged.snapshot()
    staged.status(capsys)
    assert staged.snapshot() == before
    session.own()  # not fenced: this asks for the epoch after its own


@pytest.mark.parametrize("is_semel", [False, True])
def test_an_older_checkpoint(cluster: Cluster, tmp_path: Path, capsys: Out, is_semel: bool) -> None:
    """E13: the words are those of the sink's own refusal; semel's source has a second answer."""
    staged = Staged.level(cluster, tmp_path, is_semel=is_semel)
    staged.send(5)
    for name in ("offsets/1", "commits/1"):
        (tmp_path / name).unlink()
    code, told = staged.status(capsys)
    assert code == ExitCode.BROKEN
    plain, *knowing = told["next"]
    refused = staged.decide(staged.session(), staged.micro_batch(1, 25, 10), str(tmp_path))
    assert refused.action is Plan.REFUSE
    assert refused.error is not None
    assert (plain["row"], plain["reason"], plain["you_want"]) == ("D18", refused.reason, refused.error.you_want)
    assert plain["you_want"].startswith(
        f"semel pipeline reset {staged.name} --bootstrap {cluster.bootstrap} --to ledger --checkpoint {tmp_path}; or "
    )
    assert refused.error.next_command == (
        f"semel pipeline status {staged.name} --bootstrap {cluster.bootstrap} --checkpoint {tmp_path}"
    )
    assert [(one["expected"], one["row"]) for one in knowing] == ([("skip", "D07")] if is_semel else [])


def test_a_pending_micro_batch_that_is_in_the_output(staged: Staged, capsys: Out) -> None:
    """And what comes after it."""
    (staged.folder / "commits" / "1").unlink()
    staged.send(5)
    code, told = staged.status(capsys)
    assert code == ExitCode.HELD
    assert [(one["expected"], one["row"], one["micro_batch"], one["is_replay"]) for one in told["next"]] == [
        ("skip", "D07", 1, True),
        ("run", "D10", 2, False),
    ]


def test_after_one_that_is_passed_over_the_next_is_refused(staged: Staged, capsys: Out) -> None:
    staged.send(10)
    staged.commit(2, 30, 20)
    staged.send(10)
    (staged.folder / "commits" / "1").unlink()
    code, told = staged.status(capsys)
    assert code == ExitCode.BROKEN
    assert [(one["expected"], one["row"]) for one in told["next"]] == [("skip", "D17"), ("refuse", "D18")]


def test_a_deleted_ledger(staged: Staged, capsys: Out) -> None:
    """E9: nobody knows what the output holds."""
    admin = AdminClient({"bootstrap.servers": staged.cluster.bootstrap})
    for future in admin.delete_consumer_groups([staged.name]).values():
        future.result(CLIENT_S_MAX)
    code, told = staged.status(capsys)
    assert (code, told["ledger"]["state"], told["next"][0]["row"]) == (ExitCode.BROKEN, "none", "D04")
    assert staged.run("status") == ExitCode.UNKNOWN, "without a checkpoint nobody can tell"
    capsys.readouterr()
    assert staged.run("status", "--output", staged.output, "--format", "json") == ExitCode.HELD
    rows = {one["row"] for one in json.loads(capsys.readouterr().out)["next"]}
    assert rows == {"D01"}, "nothing was written to the output, only ends of transactions"


def test_an_open_transaction(staged: Staged, capsys: Out) -> None:
    """The ledger is not decided, and the next start aborts what is open: it is decided as if it were gone."""
    session, micro_batch = staged.session(), staged.micro_batch(2, 25, 20)
    staged.send(5)
    staged.decide(session, micro_batch)
    session.begin()
    session.write_ledger(micro_batch)
    code, told = staged.status(capsys)
    assert (code, told["ledger"]["state"], told["owner"]["state"]) == (ExitCode.HELD, "undecided", "Ongoing")
    assert told["owner"]["open_since_ms"] > 0
    assert [one["row"] for one in told["next"]] == ["D10"]
    session.abort()


def test_without_a_checkpoint_every_new_start_is_told(staged: Staged, capsys: Out) -> None:
    staged.send(5)
    assert staged.run("status", "--format", "json") == ExitCode.HELD
    told = json.loads(capsys.readouterr().out)
    found = {(one["start"].split('"')[1], one["condition"].split(" and ")[0]): one for one in told["next"]}
    stateless = "the query keeps no state"
    assert found["latest", stateless]["row"] == "D09"
    assert found["ledger", stateless]["expected"] == "run"
    assert found["ledger", "the query keeps state"]["row"] == "D13"
    earliest = [one for one in told["next"] if '"earliest"' in one["start"] and stateless in one["condition"]]
    assert [(one["row"], one["expected"]) for one in earliest] == [("D18", "refuse"), ("D17", "skip")]


def test_a_source_topic_that_was_created_again(cluster: Cluster, tmp_path: Path, capsys: Out) -> None:
    staged = Staged.level(cluster, tmp_path, is_semel=True)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_topics([staged.source]).values():
        future.result(CLIENT_S_MAX)
    code, told = staged.status(capsys)
    assert (code, told["next"][0]["row"]) == (ExitCode.BROKEN, "source")
    assert "the topic or the partition was deleted" in told["next"][0]["because"]


def test_records_that_expired_before_they_were_read(staged: Staged, capsys: Out) -> None:
    """Its tasks would miss them: the sink runs it, the source stops. A reset to the ledger counts them, no more."""
    staged.send(5)
    admin = AdminClient({"bootstrap.servers": staged.cluster.bootstrap})
    for future in admin.delete_records([Place(staged.source, 0, 23)]).values():
        future.result(CLIENT_S_MAX)
    code, told = staged.status(capsys)
    assert code == ExitCode.BROKEN
    assert [(one["expected"], one["row"]) for one in told["next"]] == [("refuse", "source"), ("run", "D10")]
    assert "wanted offset 20, the next is 23" in told["next"][0]["reason"]
    assert staged.run("reset", "--to", "ledger", "--checkpoint", str(staged.folder), "--dry-run") == ExitCode.HELD
    assert "0 offsets would be repeated, 3 lost" in capsys.readouterr().out
    wanted = json.dumps({staged.source: {"0": -2}})
    arguments = ["--to", "offsets", "--offsets", wanted, "--checkpoint", str(staged.folder), "--yes"]
    assert staged.run("reset", *arguments) == ExitCode.HELD
    assert staged.status(capsys)[0] == ExitCode.HELD


def test_a_ledger_that_somebody_else_has_open(staged: Staged, capsys: Out) -> None:
    """E12: a start would not take it for one that is not there, and no reset moves it."""
    other = TransactionClient(staged.wire, f"{staged.name}-other", timeout_ms=60_000)
    other.begin(staged.wire.deadline())
    entries = {place: CommittedOffset(offset_next=1) for place in staged.at(1)}
    other.commit_offsets(staged.name, entries, staged.wire.deadline())
    code, told = staged.status(capsys)
    assert (code, told["ledger"]["state"], told["next"][0]["expected"]) == (ExitCode.UNKNOWN, "undecided", "unknown")
    before = {path.name for path in (staged.folder / "offsets").iterdir()}
    assert staged.run("reset", "--to", "ledger", "--checkpoint", str(staged.folder), "--yes") == ExitCode.UNKNOWN
    assert "is not decided; nothing is moved" in capsys.readouterr().err
    assert {path.name for path in (staged.folder / "offsets").iterdir()} == before
    other.end(staged.wire.deadline(), commit=False)
    assert staged.status(capsys)[0] == ExitCode.HELD


def test_batch_jobs(cluster: Cluster, tmp_path: Path, capsys: Out) -> None:
    """Their ledger says which runs were written, and nothing of a source."""
    staged = Staged.new(cluster, tmp_path)
    session = staged.session()
    run = Run(id="monday")
    job = MicroBatch(
        pipeline=staged.name,
        query_id=run_query_id(run),
        id=0,
        guarantee=Guarantee.EXACTLY_ONCE,
        offsets=None,
        run=run,
    )
    session.prepare_run(job)
    session.own()
    session.read_ledger(job)
    session.begin()
    session.write_ledger(job)
    session.commit()
    assert staged.run("status") == ExitCode.UNKNOWN
    told = capsys.readouterr().out
    assert "of batch jobs: each run is remembered in a group of its own" in told
    assert "not known: the ledger has no offsets of a Kafka topic" in told
    assert staged.run("reset", "--to", "earliest", "--yes") == ExitCode.USAGE
    assert "has no offsets of a Kafka topic" in capsys.readouterr().err


# --- what is refused


def test_a_name_that_nobody_has(staged: Staged, capsys: Out) -> None:
    assert staged.run("status", name="nobody") == ExitCode.UNKNOWN
    assert "nothing is known of a pipeline 'nobody'" in capsys.readouterr().err


def test_another_pipelines_checkpoint(staged: Staged, capsys: Out) -> None:
    staged.save([10, 20], committed=1, pipeline="another")
    code, told = staged.status(capsys)
    assert (code, told["next"][0]["row"]) == (ExitCode.BROKEN, "claim")
    assert "belongs to pipeline 'another'" in told["next"][0]["reason"]


@pytest.mark.parametrize("verb", [["status"], ["reset", "--to", "earliest", "--yes"], ["release", "--yes"]])
def test_a_plain_consumer_group(staged: Staged, capsys: Out, verb: list[str]) -> None:
    client = Consumer({"bootstrap.servers": staged.cluster.bootstrap, "group.id": f"{staged.name}-plain"})
    client.commit(offsets=[Place(staged.source, 0, 3)], asynchronous=False)
    client.close()
    assert staged.run(verb[0], *verb[1:], name=f"{staged.name}-plain") == ExitCode.USAGE
    assert "that no pipeline wrote" in capsys.readouterr().err
    again = Consumer({"bootstrap.servers": staged.cluster.bootstrap, "group.id": f"{staged.name}-plain"})
    assert again.committed([Place(staged.source, 0)], timeout=CLIENT_S_MAX)[0].offset == 3
    again.close()


def test_wrong_usage(staged: Staged, capsys: Out) -> None:
    for more in (
        ["reset", "--to", "leger"],
        ["reset"],
        ["reset", "--to", "offsets"],
        ["reset", "--to", "earliest", "--offsets", "{}"],
        ["reset", "--to", "offsets", "--offsets", "nonsense"],
        ["reset", "--to", "ledger"],
        ["status", "--guarantee", "twice"],
        ["status", "--checkpoint", "hdfs://nn/checkpoint"],
    ):
        assert staged.run(more[0], *more[1:]) == ExitCode.USAGE, more
        assert capsys.readouterr().err.strip(), more
