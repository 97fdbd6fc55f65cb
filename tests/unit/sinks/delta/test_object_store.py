"""A Delta table in an object store, through S3's protocol: the same deaths as in a folder, and lost answers."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from semel.errors import ConfigError, FencedError, SemelError, SinkError
from semel.sinks.base import CommitStep, Task
from semel.sinks.delta.place import Place
from semel.sinks.delta.sink import DeltaSink
from tests.support.object_store import BUCKET, SECRET, ObjectStore, relayed
from tests.unit.sinks.delta.local_table import LocalTable
from tests.unit.sinks.local_work import COLUMNS, ROWS, KillAt, Killed, local_work, orders

ALL = list(range(3 * ROWS))
_numbers = count(1)


@dataclass
class StoreTable(LocalTable):
    """The same query, into a table in a bucket."""

    uri: str = field(default_factory=lambda: f"s3://{BUCKET}/orders-{next(_numbers)}")
    storage: dict[str, str] = field(default_factory=dict)

    def sink(self) -> DeltaSink:
        return DeltaSink(self.uri, storage_options=self.storage, **self.options)

    def table(self) -> Any:
        return deltalake.DeltaTable(self.uri, storage_options=self.storage)

    def ids(self) -> list[int]:
        has_table = deltalake.DeltaTable.is_deltatable(self.uri, storage_options=self.storage)
        found: list[Any] = self.rows().column("id").to_pylist() if has_table else []
        return sorted(found)

    def files(self) -> set[str]:
        found = Place.of(self.uri, self.storage).files.get_file_info(pafs.FileSelector("", recursive=True))
        return {one.base_name for one in found if one.base_name.endswith(".parquet")}


@pytest.fixture
def job(object_store: ObjectStore) -> StoreTable:
    return StoreTable(Path("unused"), storage=object_store.options())


@pytest.mark.quick(2)
@pytest.mark.parametrize("step", list(CommitStep))
def test_a_driver_is_killed_at_a_step(job: StoreTable, step: CommitStep) -> None:
    with pytest.raises(Killed):
        job.drive(3, KillAt(step, nth=2))
    job.drive(3)
    assert job.ids() == ALL
    assert job.table().transaction_version(job.pipeline) == 3


def test_every_attempt_writes_and_the_files_of_the_others_are_removed(job: StoreTable) -> None:
    job.attempts = 2
    job.drive(2)
    assert job.ids() == ALL[: 2 * ROWS]
    named = {Path(one).name for one in job.table().file_uris()}
    assert len(named) == 2 * 3, "each micro-batch has three tasks"
    assert job.files() == named


def test_an_older_driver_wakes_up(job: StoreTable) -> None:
    older, newer = job.open(), job.open()
    job.write(older, 0)
    job.write(newer, 1)
    with pytest.raises(FencedError):
        job.write(older, 1)
    assert job.ids() == ALL[: 2 * ROWS]


@pytest.mark.full
def test_drivers_race(job: StoreTable) -> None:
    """The store takes an entry of the log only from one of them."""
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


def test_the_answer_to_a_commit_is_lost(job: StoreTable, object_store: ObjectStore) -> None:
    """E3: the library asks again, hears that the entry is there, and takes it for somebody else's."""
    job.drive(1)
    with relayed(object_store, lose=f"{2:020}.json", times=1) as seen:
        job.storage = seen.store.options()
        assert job.write(job.open(), 1) == ROWS
    job.storage = object_store.options()
    assert seen.lost == ["200"], "the store has written the entry"
    assert job.ids() == ALL[: 2 * ROWS]
    assert job.table().transaction_version(job.pipeline) == 2


def test_partitions_keep_their_values(job: StoreTable) -> None:
    job.options = {"partition_by": ["note"]}
    notes = ["a b", "c/d=e", None, "ü%20"]
    batch = pa.table({"id": pa.array(range(4)), "note": pa.array(notes)}).to_batches()
    job.write(job.open(), 0, work=local_work(batch, attempts=2))
    found = job.rows().to_pydict()
    assert dict(zip(found["id"], found["note"], strict=True)) == dict(enumerate(notes))
    found_files = Place.of(job.uri, job.storage).files.get_file_info(pafs.FileSelector("", recursive=True))
    written = [one.path for one in found_files if one.base_name.endswith(".parquet")]
    assert len(written) == len(notes), "those of the first attempt are gone"


def test_a_table_is_restored_to_an_older_version(job: StoreTable) -> None:
    """The log is read from the store too: the refusal names the version that undoes it."""
    job.drive(2)
    job.table().restore(1)
    with pytest.raises(SemelError, match="RESTORE to version 2"):
        job.drive(3)
    job.table().restore(2)
    job.drive(3)
    assert job.ids() == ALL


@pytest.mark.parametrize("spoil", ["bucket", "endpoint"])
def test_a_store_that_is_not_there_is_told_without_secrets(job: StoreTable, spoil: str) -> None:
    if spoil == "bucket":
        job.uri = f"s3://no-such-{BUCKET}/orders"
    else:
        job.storage |= {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_RETRIES": "0", "max_retries": "0"}
    with pytest.raises(SinkError, match="cannot be read") as told:
        job.sink().check_columns(COLUMNS)
    assert "storage_options that fit it" in str(told.value)
    assert SECRET not in str(told.value)
    assert "\x1b" not in str(told.value)


def test_secrets_are_in_no_repr_and_in_no_error(job: StoreTable) -> None:
    session = job.open()
    work = pickle.loads(pickle.dumps(session.staging_task(COLUMNS, "x")))
    assert list(work(Task(number=0, attempt_id=1), iter(orders(0, ROWS))))
    for shown in (repr(job.sink()), repr(work), repr(session), str(vars(session))):
        assert SECRET not in shown
    assert SECRET not in Place.of(job.uri, job.storage).told(OSError(f"signed with {SECRET}"))


@pytest.mark.parametrize(
    ("path", "options", "told"),
    [
        ("", {}, "path is empty"),
        ("hdfs://node/orders", {}, "neither a folder nor an object store"),
        ("memory://x/orders", {}, "neither a folder nor an object store"),
        ("s3://bucket", {}, "neither a folder nor an object store"),
        ("s3://me:word@bucket/orders", {}, "more than a bucket and a path"),
        ("s3://bucket/orders?x=1", {}, "more than a bucket and a path"),
        ("/data/orders", {"AWS_REGION": "x"}, "are for object stores"),
        ("s3://bucket/orders", {"AWS_REGION": 1}, "takes texts"),
        ("s3://bucket/orders", "password", "takes texts"),
        ("s3://bucket/orders", {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, "cannot be used with a ledger"),
        ("s3://bucket/orders", {"conditional_put": "disabled"}, "cannot be used with a ledger"),
    ],
)
def test_places_that_cannot_be(path: str, options: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        DeltaSink(path, storage_options=options)
    assert "word" not in str(refused.value)


def test_a_variable_that_gives_up_the_logs_promise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", "true")
    with pytest.raises(ConfigError, match="in the environment"):
        DeltaSink("s3://bucket/orders")


def test_one_address_is_one_place() -> None:
    assert DeltaSink("s3a://bucket/orders/").place == DeltaSink("s3://bucket/orders").place
