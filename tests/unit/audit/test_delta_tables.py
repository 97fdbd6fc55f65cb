"""Delta tables as an audit reads them from their log: the ledger of a pipeline, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from deltalake.transaction import CommitProperties, Transaction

from semel.audit.delta_tables import DeltaVersion
from semel.audit.places import Files
from semel.errors import ConfigError
from semel.sinks.ledger import Entry, Held, Ledger, to_text
from semel.wire.topology import TopicPartition

PLACE = TopicPartition("orders", 0)


def now(folder: Path) -> DeltaVersion:
    return DeltaVersion.now(Files(text=f"delta:{folder}", form="delta", path=str(folder)))


def commit(folder: Path, number: int, upto: int) -> None:
    """A commit as the sink writes it."""
    entry = Entry(query_id="q", micro_batch_id=number, number=number, targets=("x",))
    ledger = to_text(Ledger(last=entry, held={PLACE: Held(offset_next=upto, offset_first=0)}))
    fields = {"pipeline": "shop", "number": number, "owner": "me", "rows": 1, "ledger": ledger}
    properties = CommitProperties(
        custom_metadata={"semel": json.dumps(fields)}, app_transactions=[Transaction("shop", number)]
    )
    deltalake.write_deltalake(str(folder), pa.table({"id": [upto]}), mode="append", commit_properties=properties)


def test_a_version_has_the_ledger_of_its_moment(tmp_path: Path) -> None:
    commit(tmp_path / "bills", 1, 10)
    commit(tmp_path / "bills", 2, 25)
    first = now(tmp_path / "bills")
    commit(tmp_path / "bills", 3, 40)
    found = first.ledger("shop")
    assert found.held[PLACE].offset_next == 25
    assert [(one.offset_first, one.offset_next) for one in found.commits("orders")] == [(0, 10), (10, 25)]
    assert all(one.committed_s for one in found.commits("orders"))
    assert now(tmp_path / "bills").ledger("shop").held[PLACE].offset_next == 40


def test_what_cannot_be_judged_by_a_ledger_is_refused(tmp_path: Path) -> None:
    commit(tmp_path / "bills", 1, 10)
    commit(tmp_path / "bills", 2, 25)
    with pytest.raises(ConfigError, match="no ledger of 'other'"):
        now(tmp_path / "bills").ledger("other")
    deltalake.DeltaTable(str(tmp_path / "bills")).restore(0)
    with pytest.raises(ConfigError, match="was restored to an older version"):
        now(tmp_path / "bills").ledger("shop")


def test_a_table_that_needs_more_than_its_files_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    deltalake.write_deltalake(str(folder), pa.table({"id": [1]}))
    # As another writer leaves it.
    needs = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    entry = {"protocol": needs | {"writerFeatures": ["deletionVectors"]}}
    (folder / "_delta_log" / f"{1:020}.json").write_text(json.dumps(entry) + "\n")
    with pytest.raises(ConfigError, match="deletionVectors"):
        now(folder)
    with pytest.raises(ConfigError, match="is no Delta table"):
        now(tmp_path / "nowhere")
