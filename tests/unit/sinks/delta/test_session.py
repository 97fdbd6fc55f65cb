"""Micro-batches into a Delta table: drivers killed at every step, attempts twice, two drivers, operators' acts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semel.errors import ConfigError, FencedError, OutcomeUnknownError, SemelError, SinkError
from semel.guarantee import Guarantee
from semel.sinks.base import Column, CommitStep, Task
from semel.sinks.delta import rows
from semel.sinks.delta.library import Library
from semel.sinks.delta.session import DeltaSession
from semel.testing.local_work import LocalWork
from tests.unit.sinks.delta.local_table import LocalTable
from tests.unit.sinks.local_work import COLUMNS, ROWS, KillAt, Killed, local_work, orders, write_run

ALL = list(range(3 * ROWS))


@pytest.fixture
def job(tmp_path: Path) -> LocalTable:
    return LocalTable(tmp_path / "orders")


@pytest.mark.parametrize("step", list(CommitStep))
def test_a_driver_is_killed_at_a_step(job: LocalTable, step: CommitStep) -> None:
    """M23, M27, E5: whatever had happened by then, the next driver goes on exactly."""
    with pytest.raises(Killed):
        job.drive(3, KillAt(step, nth=2))
    done = job.done + (step is CommitStep.COMMITTED)
    assert job.ids() == ALL[: done * ROWS]
    job.drive(3)
    assert job.ids() == ALL
    assert job.table().transaction_version(job.pipeline) == 3


def test_without_the_ledger_the_same_kill_doubles_rows(job: LocalTable) -> None:
    """The other half: files and ledger in two entries."""
    job.guarantee = Guarantee.AT_LEAST_ONCE
    with pytest.raises(Killed):
        job.drive(3, KillAt(CommitStep.ROWS_WRITTEN, nth=2))
    job.drive(3)
    assert job.ids() == sorted([*ALL, *ALL[ROWS : 2 * ROWS]])


def test_at_most_once_loses_and_never_repeats(job: LocalTable) -> None:
    job.guarantee = Guarantee.AT_MOST_ONCE
    with pytest.raises(Killed):
        job.drive(3, KillAt(CommitStep.COMMITTED, nth=2))
    job.drive(3)
    assert job.ids() == [*ALL[:ROWS], *ALL[2 * ROWS :]]


def test_every_attempt_writes_and_one_of_each_task_counts(job: LocalTable) -> None:
    job.attempts = 2
    job.drive(3)
    assert job.ids() == ALL
    named = {Path(uri).name for uri in job.table().file_uris()}
    assert job.files() == named, "files of attempts that do not count are removed after the commit"


@pytest.mark.parametrize("step", [CommitStep.LEDGER_READ, CommitStep.OPENED, CommitStep.OFFSETS_WRITTEN])
def test_an_older_driver_wakes_up(job: LocalTable, step: CommitStep) -> None:
    """E23: its successor has committed meanwhile, so the log refuses it."""
    job.drive(1)
    older, newer = job.open(), job.open()

    def sleep(at: CommitStep) -> None:
        if at is step:
            job.write(newer, 1)

    with pytest.raises(FencedError):
        job.write(older, 1, sleep)
    assert job.ids() == ALL[: 2 * ROWS]
    job.write(newer, 2)
    job.done = 2
    assert job.ids() == ALL


@pytest.mark.parametrize("step", [CommitStep.OWNED, CommitStep.LEDGER_READ, CommitStep.OPENED, CommitStep.ROWS_WRITTEN])
def test_two_drivers_begin_a_table(job: LocalTable, step: CommitStep) -> None:
    """Neither has seen a table; the one that comes later finds what the other has committed."""
    others = [job.open()]

    def overtake(at: CommitStep) -> None:
        if at is step and others:
            job.write(others.pop(), 0)

    with suppress(FencedError):
        assert job.write(job.open(), 0, overtake) == 0
    assert job.ids() == ALL[:ROWS]


def test_drivers_race(job: LocalTable) -> None:
    """Each commits when the log lets it; in the end every micro-batch is there once."""
    errors: list[BaseException] = []

    def race() -> None:
        done = 0
        while done < 3 and not errors:
            session = job.open()
            try:
                while done < 3:
                    job.write(session, done)
                    done += 1
            except (FencedError, SinkError):
                continue
            except BaseException as error:  # noqa: BLE001 - told below
                errors.append(error)

    drivers = [threading.Thread(target=race) for _ in range(3)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert errors == []
    assert job.ids() == ALL
    assert job.table().transaction_version(job.pipeline) == 3


def test_a_driver_that_committed_before_is_told_of_its_successor(job: LocalTable) -> None:
    older, newer = job.open(), job.open()
    job.write(older, 0)
    job.write(newer, 1)
    with pytest.raises(FencedError):
        job.write(older, 2)
    assert job.ids() == ALL[: 2 * ROWS]


def test_others_write_to_the_same_table(job: LocalTable, tmp_path: Path) -> None:
    """Another pipeline, and somebody without any: neither stands in the way."""
    job.drive(1)
    other = LocalTable(job.folder, pipeline="another", options={"ledger_missing": "run"})

    def meddle(step: CommitStep) -> None:
        if step is CommitStep.OPENED:
            other.write(other.open(), 0, work=local_work(orders(1000, 1010)))
            deltalake.write_deltalake(str(job.folder), pa.table({"id": [5000], "note": ["by hand"]}), mode="append")

    job.write(job.open(), 1, meddle)
    assert job.ids() == [*ALL[: 2 * ROWS], *range(1000, 1010), 5000]


@pytest.mark.parametrize("is_done", [True, False], ids=["committed", "not committed"])
def test_the_answer_to_a_commit_is_lost(job: LocalTable, monkeypatch: pytest.MonkeyPatch, is_done: bool) -> None:
    """E3: the table is loaded again; nothing is guessed."""
    append = DeltaSession._append
    lost: list[int] = []

    def lose(session: DeltaSession, *given: Any) -> None:
        if lost:
            append(session, *given)
            return
        lost.append(1)
        if is_done:
            append(session, *given)
        raise OSError("the connection to the store was cut")

    monkeypatch.setattr(DeltaSession, "_append", lose)
    assert job.write(job.open(), 0) == ROWS
    assert job.ids() == ALL[:ROWS]
    assert job.table().transaction_version(job.pipeline) == 1


def test_nobody_can_say_whether_it_was_committed(job: LocalTable, monkeypatch: pytest.MonkeyPatch) -> None:
    session = job.open()
    append, table = DeltaSession._append, Library().table

    def lose(session: DeltaSession, *given: Any) -> None:
        append(session, *given)

        def gone(*_: object, **__: object) -> None:
            raise OSError("the store is gone")

        session._library.table = gone
        raise OSError("cut")

    monkeypatch.setattr(DeltaSession, "_append", lose)
    with pytest.raises(OutcomeUnknownError, match="nobody knows"):
        job.write(session, 0)
    monkeypatch.undo()
    session._library.table = table
    job.drive(2)
    assert job.ids() == ALL[: 2 * ROWS]


def test_a_file_that_a_task_wrote_is_gone(job: LocalTable) -> None:
    """E22: the log would take it; the micro-batch is run again."""
    session, losses = job.open(), [1]

    def lose() -> None:
        if losses:
            losses.pop()
            next(file for file in job.folder.rglob("semel-*.parquet")).unlink()

    assert job.write(session, 0, work=local_work(orders(0, ROWS), before_results=lose)) == ROWS
    assert not losses
    assert job.ids() == ALL[:ROWS]


# --- what operators do


def test_a_table_that_has_rows_and_no_ledger_is_refused(job: LocalTable) -> None:
    """E9, with a way out that is followed."""
    deltalake.write_deltalake(str(job.folder), pa.table({"id": [-1], "note": ["mine"]}))
    with pytest.raises(OutcomeUnknownError, match=r"DeltaSink.*ledger_missing"):
        job.drive(1)
    job.options["ledger_missing"] = "run"
    job.drive(1)
    assert job.ids() == [-1, *ALL[:ROWS]]


def test_a_table_is_restored_to_an_older_version(job: LocalTable) -> None:
    """The number of the pipeline stays, the rows go: refused, and right again once the restore is undone."""
    job.drive(2)
    version = job.table().version()
    job.table().restore(version - 1)
    assert job.ids() == ALL[:ROWS]
    with pytest.raises(ConfigError, match="restored to an older version"):
        job.drive(3)
    assert job.ids() == ALL[:ROWS]
    restored = job.table().version()
    deltalake.write_deltalake(str(job.folder), pa.table({"id": [5000], "note": ["by hand"]}), mode="append")
    job.table().restore(restored)  # a younger version than the commit's, and the rows are not there either
    with pytest.raises(ConfigError, match="restored to an older version"):
        job.drive(3)
    job.table().restore(version)
    job.drive(3)
    assert job.ids() == ALL


@pytest.mark.parametrize("version", [0, 1])
def test_a_restored_table_is_filled_again(job: LocalTable, version: int) -> None:
    """A new checkpoint goes on from what the restored table holds; the pipeline's number goes on as well."""
    job.drive(2)
    job.table().restore(version)
    with pytest.raises(SemelError, match="RESTORE to version 2 brings that back") as caught:
        job.drive(3)
    if version:
        assert f'\'{{"orders": {{"0": {version * ROWS}}}}}\'' in str(caught.value)
    job.query_id, job.done = "begun again with these startingOffsets", version
    job.drive(3)
    assert job.ids() == ALL
    assert job.table().transaction_version(job.pipeline) == 2 + 3 - version


def test_a_restore_to_a_time_says_too_little(job: LocalTable) -> None:
    job.drive(2)
    job.table().restore(1)
    entry = job.folder / "_delta_log" / f"{3:020}.json"
    by_time = entry.read_text().replace('{"version":"1"}', '{"datetime":"1794980198898"}')
    assert "datetime" in by_time
    entry.write_text(by_time)  # as a restore to a time is written
    with pytest.raises(OutcomeUnknownError, match="version 3 of the table is a restore to a time"):
        job.drive(3)
    job.table().restore(2)  # as it was told
    job.drive(3)
    assert job.ids() == ALL


def test_a_run_that_a_restore_took_away_is_not_taken_for_written(job: LocalTable) -> None:
    for name, first in (("monday", 0), ("tuesday", ROWS)):
        assert write_run(job.open(), name, orders(first, first + ROWS)) == ROWS
    job.table().restore(1)
    assert write_run(job.open(), "monday", orders(0, ROWS)) == 0
    with pytest.raises(ConfigError, match="run 'tuesday' was written in version 2") as caught:
        write_run(job.open(), "tuesday", orders(ROWS, 2 * ROWS))
    assert "another run_id" in str(caught.value)
    assert write_run(job.open(), "tuesday, again", orders(ROWS, 2 * ROWS)) == ROWS
    assert job.ids() == ALL[: 2 * ROWS]


def test_a_table_that_was_moved_is_the_same_one(job: LocalTable) -> None:
    """The ledger is part of the table, so it came along."""
    job.drive(1)
    job.folder = job.folder.rename(job.folder.with_name("moved"))
    job.drive(3)
    assert job.ids() == ALL


def test_a_table_that_was_made_again_is_not_taken_for_the_old_one(job: LocalTable) -> None:
    """Its log, and with it the ledger, went too: what the checkpoint has done is missing."""
    job.drive(1)
    job.folder.rename(job.folder.with_name("gone"))
    with pytest.raises(OutcomeUnknownError, match="has no ledger"):
        job.drive(2)


def test_a_log_that_was_cleaned_of_the_last_commit_is_refused(job: LocalTable) -> None:
    """The number is in the log's checkpoint for good; what the commit said is not."""
    job.drive(2)
    for number in range(25):
        row = pa.table({"id": [1000 + number], "note": ["by hand"]})
        deltalake.write_deltalake(str(job.folder), row, mode="append")
    job.table().create_checkpoint()
    for entry in sorted((job.folder / "_delta_log").glob("*.json"))[:-1]:
        entry.unlink()
    assert job.table().transaction_version(job.pipeline) == 2
    with pytest.raises(OutcomeUnknownError, match="no longer what it said"):
        job.drive(3)
    assert len(job.ids()) == 2 * ROWS + 25


def test_a_vacuum_takes_nothing_that_is_needed(job: LocalTable) -> None:
    with pytest.raises(Killed):
        job.drive(3, KillAt(CommitStep.ROWS_WRITTEN, nth=2))
    left = job.files()
    job.drive(3)
    job.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert job.ids() == ALL
    assert left - job.files(), "what the dead driver left is gone"


# --- columns and partitions


def test_partitions_are_folders(job: LocalTable) -> None:
    """Nulls, blanks and slashes in values too; another engine's reader finds them."""
    job.options = {"partition_by": ["note"]}
    notes = ["a b", "c/d=e", None, "ü%20"]
    batch = pa.table({"id": pa.array(range(4)), "note": pa.array(notes)}).to_batches()
    job.write(job.open(), 0, work=local_work(batch))
    found = job.rows().to_pydict()
    assert dict(zip(found["id"], found["note"], strict=True)) == dict(enumerate(notes))


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ((*COLUMNS, Column(name="more", type="int", json='"integer"')), {}, "has no column 'more'"),
        ((COLUMNS[0], Column(name="note", type="int", json='"integer"')), {}, "column 'note' is"),
        (COLUMNS, {"partition_by": ["note"]}, "is partitioned by"),
        (COLUMNS, {"partition_by": ["absent"]}, "partition_by='absent'"),
        ((*COLUMNS, Column(name="none", type="void", json='"void"')), {}, "column 'none' is void"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    job: LocalTable, columns: tuple[Column, ...], options: dict[str, Any], told: str
) -> None:
    job.drive(1)
    job.options = options
    with pytest.raises(ConfigError, match=told):
        job.sink().check_columns(columns)
    assert job.ids() == ALL[:ROWS]


WIDER = (*COLUMNS, Column(name="more", type="int", json='"integer"'))


def wider_work(first: int, end: int) -> LocalWork:
    ids = list(range(first, end))
    table = pa.table({"id": ids, "note": ["w"] * len(ids), "more": pa.array(ids, pa.int32())})
    return local_work(table.to_batches(), WIDER)


@pytest.mark.parametrize("step", list(CommitStep))
def test_new_columns_are_added_if_asked_for(job: LocalTable, step: CommitStep) -> None:
    """A driver that dies in the middle has added them or not; either way the next goes on."""
    job.drive(1)
    job.options = {"merge_schema": True}
    assert job.sink().check_columns(WIDER) == WIDER
    with pytest.raises(Killed):
        job.write(job.open(), 1, KillAt(step), wider_work(ROWS, 2 * ROWS))
    job.write(job.open(), 1, work=wider_work(ROWS, 2 * ROWS))
    rows = job.rows().to_pydict()
    assert sorted(zip(rows["id"], rows["more"], strict=True)) == [
        *((number, None) for number in range(ROWS)),
        *((number, number) for number in range(ROWS, 2 * ROWS)),
    ]


def test_another_driver_commits_while_columns_are_added(job: LocalTable) -> None:
    """S23: the widened table is a younger state than the one that was decided on."""
    job.drive(1)
    job.options = {"merge_schema": True}
    others = [job.open()]

    def overtake(at: CommitStep) -> None:
        if at is CommitStep.OPENED and others:
            job.write(others.pop(), 1)

    with suppress(FencedError):
        assert job.write(job.open(), 1, overtake, wider_work(ROWS, 2 * ROWS)) == 0
    assert job.ids() == ALL[: 2 * ROWS]


def constrained(job: LocalTable) -> None:
    job.table().alter.add_constraint({"positive": "id >= 0"})


def generated(job: LocalTable) -> None:
    """As Spark's Delta leaves it in the log."""
    log = job.folder / "_delta_log" / "00000000000000000000.json"
    rule = json.dumps({"delta.generationExpression": "upper(note)"})
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            schema["fields"][1]["metadata"] = json.loads(rule)
            line["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(("change", "told"), [(constrained, "delta.constraints.positive"), (generated, "'note'")])
def test_rules_of_a_table_that_are_not_kept_here_are_refused(
    job: LocalTable, change: Callable[[LocalTable], None], told: str
) -> None:
    """Files are written without asking the table, so rows that break a rule would be let in silently."""
    job.drive(1)
    change(job)
    with pytest.raises(ConfigError, match=told):
        job.sink().check_columns(COLUMNS)
    with pytest.raises(ConfigError, match=told):
        job.drive(2)
    assert job.ids() == ALL[:ROWS]


def test_a_null_where_the_table_has_none_is_refused(job: LocalTable) -> None:
    fields: list[Any] = [pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())]
    deltalake.DeltaTable.create(str(job.folder), pa.schema(fields))
    session = job.open()
    work = local_work(pa.table({"id": pa.array([1, None], pa.int64()), "note": ["a", "b"]}).to_batches())
    with pytest.raises(ConfigError, match="column 'id' has nulls"):
        job.write(session, 0, work=work)
    assert job.write(session, 0) == ROWS


EVERY: dict[str, tuple[str, str, Any]] = {
    "tinyint": ('"byte"', "int8", 1),
    "smallint": ('"short"', "int16", -2),
    "int": ('"integer"', "int32", 3),
    "bigint": ('"long"', "int64", 2**62),
    "float": ('"float"', "float32", 0.5),
    "double": ('"double"', "float64", -0.1),
    "boolean": ('"boolean"', "bool_", True),
    "string": ('"string"', "string", "ü"),
    "binary": ('"binary"', "binary", b"\0"),
    "date": ('"date"', "date32", date(1, 1, 1)),
}


def test_values_go_out_exactly(job: LocalTable) -> None:
    """P2; times with a zone are kept as the moment that they are, decimals and nested values as they come."""
    moment = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
    arrays = {kind: pa.array([value, None], getattr(pa, name)()) for kind, (_, name, value) in EVERY.items()}
    arrays["timestamp"] = pa.array([moment, None], pa.timestamp("us", "Europe/Berlin"))
    arrays["timestamp_ntz"] = pa.array([moment.replace(tzinfo=None), None], pa.timestamp("us"))
    arrays["decimal(38,3)"] = pa.array(
        [Decimal("-12345678901234567890123456789012345.678"), None], pa.decimal128(38, 3)
    )
    arrays["array<int>"] = pa.array([[1, None], None], pa.list_(pa.int32()))
    arrays["map<string,bigint>"] = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    json_of = {kind: found[0] for kind, found in EVERY.items()} | {
        "array<int>": '{"type":"array","elementType":"integer","containsNull":true}',
        "map<string,bigint>": '{"type":"map","keyType":"string","valueType":"long","valueContainsNull":true}',
    }
    columns = tuple(Column(name=f"a {kind}", type=kind, json=json_of.get(kind, f'"{kind}"')) for kind in arrays)
    table = pa.table({column.name: array for column, array in zip(columns, arrays.values(), strict=True)})
    job.write(job.open(), 0, work=local_work(table.to_batches(), columns))
    found = job.rows().select(table.column_names).to_pylist()
    assert found == table.to_pylist()


def test_a_folder_that_cannot_be_read_as_a_table(job: LocalTable) -> None:
    (job.folder / "_delta_log").mkdir(parents=True)
    (job.folder / "_delta_log" / "00000000000000000000.json").write_text("nonsense\n")
    with pytest.raises(SinkError, match="cannot be read"):
        job.drive(1)


def test_small_batches_become_large_row_groups(job: LocalTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reader pays for a row group; those of ten rows would be many. Rows keep their order."""
    monkeypatch.setattr(rows, "GROUP_ROWS_MIN", 25)
    task = job.open().staging_task(COLUMNS, "x")
    (told,) = [row for one in task(Task(number=0, attempt_id=1), iter(orders(0, 90))) for row in one.to_pylist()]
    found = pq.ParquetFile(job.folder / told["file"])
    groups = [found.metadata.row_group(number).num_rows for number in range(found.metadata.num_row_groups)]
    assert groups == [30, 30, 30]
    assert found.read().column("id").to_pylist() == list(range(90))
