"""What a point is played on: words that are filled in, copies, an embedded cluster, and a function as a job."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.clients.library import make
from semel.drill.output_probe import FolderProbe, TableProbe, TopicProbe, probe_of
from semel.drill.replay import Audited
from semel.drill.replay_points import Checkpoint, Point, Sight
from semel.drill.replay_stages import InPlace, OnCluster, OnCopies, Places, job_command
from semel.engine.embedded import Cluster
from semel.errors import ConfigError
from tests.support.waiting import eventually

asked: list[tuple[str, Sequence[str]]] = []


def audit(left: str, rights: Sequence[str]) -> Audited:
    asked.append((left, rights))
    return Audited(anomalies={}, is_whole=True)


def places(folder: Path, *command: str, right: str = "parquet:{point}/rows") -> Places:
    return Places(command=command, checkpoint=f"{folder}/{{point}}", left="kafka://h:9/a", rights=(right,))


def test_each_point_has_its_own_places(tmp_path: Path) -> None:
    job = places(tmp_path, "job", "--at={checkpoint}", '{"a": {point}}')
    stage = InPlace(job, audit).stage(Point.STATE)
    assert stage.command == ("job", f"--at={tmp_path}/state", '{"a": state}')
    assert stage.checkpoint == tmp_path / "state"
    stage.audit()
    assert asked[-1] == ("kafka://h:9/a", ("parquet:state/rows",))
    assert stage.sides == ("kafka://h:9/a", "parquet:state/rows")


def test_copies_are_made_for_each_point_and_originals_stay(tmp_path: Path) -> None:
    for name in ("checkpoint", "rows"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one").write_text(name)
    job = Places(
        command=("job", "{checkpoint}", "{output}"),
        checkpoint=str(tmp_path / "checkpoint"),
        left="kafka://h:9/a",
        rights=(f"json:{tmp_path}/rows",),
    )
    copies = OnCopies(job, audit, tmp_path / "copies")
    first, second = copies.stage(Point.PLANNED), copies.stage(Point.FORGOTTEN)
    assert first.checkpoint != second.checkpoint
    (first.checkpoint / "one").write_text("changed")
    assert (tmp_path / "checkpoint" / "one").read_text() == (second.checkpoint / "one").read_text() == "checkpoint"
    assert Path(first.command[2], "one").read_text() == "rows"
    first.audit()
    assert asked[-1][1] == (f"json:{first.command[2]}",)


@pytest.mark.parametrize(
    ("right", "command", "words"),
    [
        ("kafka://h:9/b", ("job", "{checkpoint}", "{output}"), "one folder"),
        ("json:rows", ("job", "{checkpoint}"), "would not run on the copies"),
    ],
)
def test_copies_that_would_not_be_used_are_refused(
    tmp_path: Path, right: str, command: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        OnCopies(places(tmp_path, *command, right=right), audit, tmp_path)


def test_the_cluster_has_new_input_before_each_strike(tmp_path: Path) -> None:
    job = Places(
        command=("job", "{bootstrap}", "{input}", "{checkpoint}"),
        checkpoint="{folder}/checkpoint",
        left="kafka://{bootstrap}/{input}",
        rights=("kafka://{bootstrap}/{output}",),
    )
    with Cluster(brokers=1) as cluster:
        stage = OnCluster(job, audit, tmp_path, cluster, 7).stage(Point.PLANNED)
        source = TopicProbe(cluster.bootstrap, stage.command[2])
        for sent in (7, 14):
            stage.feed()
            assert source.look().looks == (sent,)
        source.close()
        (output,) = stage.outputs
        assert output is not None
        assert output.look().looks == ()
        output.close()
    assert stage.environment["SEMEL_INPUT_TOPIC"] == stage.command[2]
    assert stage.checkpoint == tmp_path / "planned" / "checkpoint"


def test_rows_of_an_open_transaction_are_seen() -> None:
    """`planned` means that nothing was written: rows that no reader of committed records sees are something."""
    with Cluster(brokers=1, topics=["rows:2:1"]) as cluster:
        producer = make("Producer", {"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})
        producer.init_transactions(20)
        probe = TopicProbe(cluster.bootstrap, "rows")
        empty = probe.look()
        assert not probe.has_open_transaction()
        producer.begin_transaction()
        producer.produce("rows", b"1", partition=1)
        producer.flush()
        written = probe.look()
        assert written != empty
        assert written.looks == (0, 1)
        assert probe.has_open_transaction()
        producer.abort_transaction(20)
        eventually(lambda: not probe.has_open_transaction(), 20, what="the transaction has ended")
        assert probe.look() != empty, "the marker of its end stays"
        probe.close()


def test_an_output_that_keeps_no_transactions_has_none_open(tmp_path: Path) -> None:
    assert not FolderProbe(tmp_path).has_open_transaction()
    assert not TableProbe("", "rows").has_open_transaction()


def test_a_function_is_called_with_the_words_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.py").write_text("def run(*words):\n    open('told', 'w').write(' '.join(words))\n")
    subprocess.run(job_command(["jobs:run", "a", "b"]), check=True)
    assert (tmp_path / "told").read_text() == "a b"
    assert job_command(["python", "jobs:run"]) == ("python", "jobs:run")


def test_a_folder_that_changes_is_seen(tmp_path: Path) -> None:
    probe = FolderProbe(tmp_path / "rows")
    empty = probe.look()
    (tmp_path / "rows" / "_temporary").mkdir(parents=True)
    (tmp_path / "rows" / "_temporary" / "one").write_text("1")
    writing = probe.look()
    assert writing != empty
    assert writing.is_half_written


def test_a_table_of_another_database_cannot_be_watched() -> None:
    assert probe_of("jdbc:mysql://h/db#t") is None


def test_a_checkpoint_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be read"):
        Checkpoint(tmp_path / "file").planned()


def test_state_is_known_by_its_version(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    assert not checkpoint.keeps_state()
    (tmp_path / "state/0/1").mkdir(parents=True)
    (tmp_path / "state/0/1/3.delta").touch()
    (tmp_path / "state/0/1/left").mkdir()
    (tmp_path / "state/0/1/left/5_0a1b.changelog").touch()
    assert [number for number in range(6) if checkpoint.has_state_of(number)] == [2, 4]


@pytest.mark.parametrize("point", Point)
def test_what_is_in_the_commit_log_was_struck_nowhere(point: Point) -> None:
    sight = Sight(micro_batch_id=1, is_committed=True, has_state=True, changed=(True, False), settled=(True, True))
    assert not sight.is_hit(point)


@pytest.mark.parametrize(
    ("changed", "is_between"),
    [((True, False), True), ((False, True), True), ((True, True), False), ((False,) * 2, False)],
)
def test_between_is_when_one_output_has_rows_and_another_has_none(changed: tuple[bool, ...], is_between: bool) -> None:
    sight = Sight(micro_batch_id=1, is_committed=False, has_state=False, changed=changed, settled=(True, True))
    assert sight.is_moment(Point.BETWEEN) is is_between
    assert sight.is_hit(Point.BETWEEN) is is_between


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--embedded", "--copy"], "nothing to copy"),
        (["--embedded", "--from", "kafka://h:9/a"], "input of its own"),
        (["--records", "5"], "--records says"),
        (["--embedded", "--records", "0"], "--records 0 cannot be used"),
        (["--checkpoint", "c"], "--from and --to must be said"),
        (["--seed", "-1"], "is no seed"),
        (["--embedded", "--to", "nowhere"], "cannot be read"),
        (["--embedded", "--point", "nowhere"], "invalid choice"),
    ],
)
def test_options_that_make_no_sense(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    try:
        code = main(["drill", "replay", *arguments, "--", "true"])
    except SystemExit as end:
        code = ExitCode(int(str(end.code)))
    assert code == ExitCode.USAGE
    assert words in capsys.readouterr().err


def test_points_that_do_not_apply_alone_show_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--embedded", "--point", "between", "--to", "json:{folder}/rows", "--format", "json"]
    assert main(["drill", "replay", *words, "--", sys.executable, "-c", ""]) == ExitCode.UNKNOWN
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert (point["applies"], point["verdict"]) == (False, "DOES_NOT_APPLY")
