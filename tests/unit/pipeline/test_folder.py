"""Checkpoint folders without Spark: what they say, how they are moved, and which are none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from semel.errors import ConfigError, EnvironmentFailure
from semel.pipeline.folder import open_checkpoint
from semel.pipeline.plan import check_movable, sources_at
from semel.sinks.commands import local_path, reset_command, status_command
from semel.spark.offset_log import check_claim, parse_offset_log, write_offset_log
from semel.spark.offsets import SourceOffsets
from semel.wire.topology import TopicPartition
from tests.support.checkpoints import DONE, META, QUERY, kafka_line, semel_line, write_checkpoint

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
AT_10, AT_20 = {A0: 10, A1: 10}, {A0: 20, A1: 20}
IDS = {"a": "id of a"}


def test_what_a_checkpoint_says(tmp_path: Path) -> None:
    found = open_checkpoint(str(write_checkpoint(tmp_path, [kafka_line(AT_10), kafka_line(AT_20)], committed=0)))
    assert (found.query_id, found.owners, found.is_stateful, found.log_version) == (QUERY, ("p",), False, "v1")
    assert (found.last_planned, found.last_committed, found.pending, found.next_id) == (1, 0, 1, 1)
    assert found.position is not None
    assert found.position.offsets == AT_20


def test_one_that_is_level_and_one_without_a_past(tmp_path: Path) -> None:
    level = open_checkpoint(str(write_checkpoint(tmp_path / "level", [kafka_line(AT_10)], committed=0)))
    assert (level.pending, level.next_id) == (None, 1)
    new = open_checkpoint(str(write_checkpoint(tmp_path / "new", [], committed=None)))
    assert (new.last_planned, new.pending, new.next_id, new.log_version) == (None, None, 0, "")


def test_state_is_seen(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, [kafka_line(AT_10)], committed=0)
    (tmp_path / "state").mkdir()
    found = open_checkpoint(str(tmp_path))
    assert found.is_stateful
    with pytest.raises(ConfigError, match="keeps state: it is not moved"):
        check_movable(found, "p")


# --- moving


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("committed", [0, 1])
def test_a_moved_checkpoint_of_sparks_source(tmp_path: Path, version: str, committed: int) -> None:
    """A pending micro-batch is replaced; otherwise one is added. Nothing else is touched, and no old checksum stays."""
    lines = [kafka_line(AT_10), kafka_line(AT_20)]
    folder = open_checkpoint(str(write_checkpoint(tmp_path, lines, committed=committed, version=version)))
    assert folder.position is not None
    wanted = {A0: 15, A1: 12}
    before = (tmp_path / "offsets" / "0").read_text()
    number = folder.move(sources_at(folder.position, wanted, IDS))
    assert number == committed + 1
    moved = open_checkpoint(str(tmp_path))
    assert (moved.last_planned, moved.last_committed, moved.pending) == (number, number, None)
    assert moved.position is not None
    assert moved.position.offsets == wanted
    text = (tmp_path / "offsets" / str(number)).read_text()
    assert text.splitlines()[:2] == [version, META]
    assert "#semel" not in text
    assert (tmp_path / "commits" / str(number)).read_text() == DONE
    for name in ("offsets", "commits"):
        assert not (tmp_path / name / f".{number}.crc").exists()
        assert (tmp_path / name / ".0.crc").exists()
        assert not list((tmp_path / name).glob("*.tmp"))
    assert (tmp_path / "offsets" / "0").read_text() == before


def test_a_moved_checkpoint_of_semels_source(tmp_path: Path) -> None:
    """In its own form: ids of the topics as they are now, no leader epochs of other offsets, and text as PySpark's."""
    lines = [semel_line(AT_10, {"a": "old id"}, start={A0: 0, A1: 0}), semel_line(AT_20, {"a": "old id"})]
    folder = open_checkpoint(str(write_checkpoint(tmp_path, lines, committed=1)))
    assert folder.position is not None
    folder.move(sources_at(folder.position, {A0: 15, A1: 12}, IDS))
    line = (tmp_path / "offsets" / "2").read_text().splitlines()[2]
    assert line == json.dumps(SourceOffsets(offsets_next={A0: 15, A1: 12}, topic_ids=IDS).encode())


def test_the_first_micro_batch_begins_where_it_was_moved_to(tmp_path: Path) -> None:
    """Otherwise a start after a crash between the two files would read from the old beginning."""
    folder = open_checkpoint(
        str(write_checkpoint(tmp_path, [semel_line(AT_10, IDS, start={A0: 0, A1: 0})], committed=None))
    )
    assert folder.position is not None
    assert folder.move(sources_at(folder.position, {A0: 15, A1: 12}, IDS)) == 0
    assert open_checkpoint(str(tmp_path)).log.start(0) == {A0: 15, A1: 12}


def test_two_sources_are_moved_each_by_itself(tmp_path: Path) -> None:
    lines = [[kafka_line(AT_10), kafka_line({B0: 3})]]
    folder = open_checkpoint(str(write_checkpoint(tmp_path, lines, committed=0)))
    assert folder.position is not None
    a2, b1 = TopicPartition("a", 2), TopicPartition("b", 1)
    folder.move(sources_at(folder.position, {A0: 15, A1: 12, a2: 1, B0: 7, b1: 2}, IDS))
    moved = parse_offset_log((tmp_path / "offsets" / "1").read_text())
    assert {name: one.offsets_next for name, one in (moved.known or {}).items()} == {
        "0": {A0: 15, A1: 12, a2: 1},
        "1": {B0: 7, b1: 2},
    }


def test_two_sources_of_one_topic_do_not_share_new_partitions(tmp_path: Path) -> None:
    lines = [[kafka_line({A0: 1}), kafka_line({A1: 1})]]
    folder = open_checkpoint(str(write_checkpoint(tmp_path, lines, committed=0)))
    assert folder.position is not None
    found = sources_at(folder.position, {A0: 5, A1: 6, TopicPartition("a", 2): 9}, IDS)
    assert {name: one.offsets_next for name, one in found.items()} == {"0": {A0: 5}, "1": {A1: 6}}


def test_a_source_that_has_nothing_yet_stays_so() -> None:
    text = "\n".join(["v2", META, "0:" + kafka_line(AT_10), "1:-"])
    assert write_offset_log(text, {"0": SourceOffsets(offsets_next={A0: 1}), "1": SourceOffsets(offsets_next={B0: 1})})[
        -4:
    ].endswith("1:-")


# --- what is refused


@pytest.mark.parametrize("given", ["hdfs://nn/cp", "s3a://bucket/cp", "dbfs:/cp", "abfss://c@a.net/cp", "gs://b/c"])
def test_other_file_systems(given: str) -> None:
    with pytest.raises(ConfigError, match="folders of this machine") as caught:
        open_checkpoint(given)
    assert "copy offsets, commits, metadata, semel-pipeline" in caught.value.you_want


def test_no_folder_and_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no checkpoint folder"):
        open_checkpoint(str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="is no checkpoint"):
        open_checkpoint(str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is not a folder"):
        open_checkpoint(str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        (["metadata"], "no file named metadata"),
        (["offsets/3"], "commits/3 is there, offsets/3 is not"),
        (["commits/3", "commits/2"], "offsets/3 is there, commits/2 is not"),
        (["offsets/2"], "offsets/3 is there, offsets/2 is not"),
        (["offsets/0", "offsets/1", "offsets/2", "offsets/3"], "commits/3 is there"),
    ],
)
def test_half_a_checkpoint(tmp_path: Path, gone: list[str], told: str) -> None:
    write_checkpoint(tmp_path, [kafka_line(AT_10)] * 4, committed=3)
    for name in gone:
        (tmp_path / name).unlink()
    with pytest.raises(ConfigError, match="half a checkpoint") as caught:
        open_checkpoint(str(tmp_path))
    assert told in str(caught.value)


def test_old_entries_may_be_purged(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, [kafka_line(AT_10)] * 3, committed=102, first=100)
    assert open_checkpoint(str(tmp_path)).next_id == 103


@pytest.mark.parametrize("text", ["", "v9\n{}\n{}", "v1"])
def test_an_entry_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    write_checkpoint(tmp_path, [kafka_line(AT_10)], committed=0)
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(ConfigError, match="offset log"):
        open_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    ("pipeline", "told"), [("q", "belongs to pipeline 'q'"), ("", "has no pipeline's name"), ("p\nq", "belongs to")]
)
def test_a_checkpoint_of_another_is_not_moved(tmp_path: Path, pipeline: str, told: str) -> None:
    found = open_checkpoint(str(write_checkpoint(tmp_path, [kafka_line(AT_10)], committed=0, pipeline=pipeline)))
    with pytest.raises(ConfigError, match=told):
        check_movable(found, "p")


def test_a_source_without_kafka_offsets_is_not_moved(tmp_path: Path) -> None:
    found = open_checkpoint(str(write_checkpoint(tmp_path, ['{"logOffset":3}'], committed=0)))
    with pytest.raises(ConfigError, match="no Kafka offsets"):
        check_movable(found, "p")


def test_a_name_is_claimed_in_the_first_micro_batch_only() -> None:
    """E17: also when Spark has purged the entries of the first ones long ago."""
    check_claim([], "p", 500, "/c")
    check_claim(["p"], "p", 500, "/c")
    check_claim(["q"], "p", 0, "/c")
    with pytest.raises(ConfigError, match="belongs to pipeline 'q', not to 'p'"):
        check_claim(["q"], "p", 500, "/c")


def test_one_reset_at_a_time(tmp_path: Path) -> None:
    folder = open_checkpoint(str(write_checkpoint(tmp_path, [kafka_line(AT_10)], committed=0)))
    with folder.held(), pytest.raises(EnvironmentFailure, match="another reset works"), folder.held():
        pass
    with folder.held():
        pass


# --- words


def test_paths_and_uris(tmp_path: Path) -> None:
    blank = tmp_path / "a b"
    blank.mkdir()
    assert local_path(f"file:{tmp_path}") == tmp_path
    assert local_path(f"file://{tmp_path}") == tmp_path
    assert local_path(f"file://localhost{tmp_path}") == tmp_path
    assert local_path(f"file:{tmp_path}/a%20b") == blank
    assert local_path("relative/c") == Path("relative/c")
    assert local_path("hdfs:/c") is None


def test_commands_are_quoted() -> None:
    assert status_command("p", "h:1,i:2") == "semel pipeline status p --bootstrap h:1,i:2"
    assert status_command("a b", "h:1", "/c d") == "semel pipeline status 'a b' --bootstrap h:1 --checkpoint '/c d'"
    assert status_command("-p", "h:1").endswith("-- -p")
    assert reset_command("p", "h:1", "file:/c") == "semel pipeline reset p --bootstrap h:1 --to ledger --checkpoint /c"
    assert reset_command("p", "h:1", "s3a://b/c") == reset_command("p", "h:1", "") == ""


def test_no_spark_is_needed() -> None:
    """The command runs where Spark is not installed."""
    program = "; ".join(
        [
            "import sys",
            "sys.modules['pyspark'] = None",
            "import semel.cli.pipeline, semel.cli.pipeline_report, semel.pipeline.acts, semel.pipeline.forecast",
        ]
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
