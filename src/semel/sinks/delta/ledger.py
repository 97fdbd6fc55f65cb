"""The ledger of a pipeline in a Delta table: the version of its application transaction, and what its commit says.

The log keeps one number for each application id, which is the pipeline's name here: how many commits the pipeline has
seen. Each of these commits carries, as metadata, who made it and what the table then holds of each source partition. So
the newest of them is the ledger. A restore of the table to an older version is looked for as well, since it takes rows
away and leaves the number as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from semel.errors import OutcomeUnknownError
from semel.sinks.base import MicroBatch
from semel.sinks.ledger import Ledger, from_text, ledger_after, to_text

METADATA = "semel"
RESTORED = "RESTORE"
# Reading the whole history of a table takes long, and the pipeline's last commit is nearly always among these.
LOOK_FIRST = 20
BY_TIME = -1  # a restore that names no version


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the log says of a pipeline."""

    owner: str = ""
    number: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    is_restored: bool = False


def read_kept(table: Any, pipeline: str) -> Kept:
    """Find the pipeline's newest commit; OutcomeUnknownError when the log has forgotten what it said."""
    number = table.transaction_version(pipeline)
    if number is None:
        return Kept()
    restores: dict[int, int] = {}
    for entry in _newest_first(table):
        if entry.get("operation") == RESTORED:
            restores[entry["version"]] = int(entry.get("operationParameters", {}).get("version", BY_TIME))
        fields = json.loads(entry.get(METADATA) or "{}")
        if fields.get("pipeline") == pipeline and fields["number"] == number:
            return Kept(
                owner=fields["owner"],
                number=number,
                ledger=from_text(fields["ledger"]),
                is_restored=not _has(table.version(), entry["version"], restores),
            )
    raise OutcomeUnknownError(
        f"pipeline {pipeline!r}: the table's log knows commit {number} of it, and no longer what it said",
        because="entries of the log are removed after delta.logRetentionDuration, or were by hand",
        you_want="compute everything again: another pipeline name, a new table and a new checkpoint folder; and a "
        "delta.logRetentionDuration that is longer than the longest time without a commit",
    )


def _has(version: int, commit: int, restores: Mapping[int, int]) -> bool:
    """Whether this version of the table is made from that commit, over all restores in between."""
    while version > commit:
        # A restore continues an older version, so what lies between is no part of the table.
        version = restores.get(version, version - 1)
    return version == commit


def _newest_first(table: Any) -> Iterator[Mapping[str, Any]]:
    """The log's entries, newest first: the last few, and only if these are not enough the whole log."""
    some = table.history(LOOK_FIRST)
    yield from some
    if len(some) == LOOK_FIRST:
        yield from table.history()[LOOK_FIRST:]


def next_metadata(
    micro_batch: MicroBatch, ledger: Ledger, *, owner: str, target: str, table_id: str, rows: int
) -> tuple[int, str]:
    """The number of this micro-batch's commit, and what it says."""
    after = ledger_after(micro_batch, ledger, target, table_id)
    assert after.last is not None, "a micro-batch leaves an entry"
    fields = {
        "pipeline": micro_batch.pipeline,
        "number": after.last.number,
        "owner": owner,
        "rows": rows,
        "ledger": to_text(after),
    }
    return after.last.number, json.dumps(fields)
