"""The ledger of a pipeline in a Delta table: the version of its application transaction, and what its commit says.

The log keeps one number for each application id, which is the pipeline's name here: how many commits the pipeline has
seen. Each of these commits carries, as metadata, who made it and what the table then holds of each source partition. So
the newest of them is the ledger. A restore of the table to an older version takes rows away and leaves the number as it
is: then the newest commit that the restored table is made from says what it holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from semel.errors import OutcomeUnknownError
from semel.sinks.base import MicroBatch
from semel.sinks.delta.place import Place, place_of
from semel.sinks.ledger import Ledger, from_text, ledger_after, to_text

METADATA = "semel"
RESTORED = "RESTORE"
BY_TIME = -1  # a restore that names no version


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the log says of a pipeline."""

    owner: str = ""
    number: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    """What the table holds."""
    taken_away: int | None = None
    """The version of the newest commit, where a restore has taken it out of the table."""

    @property
    def is_restored(self) -> bool:
        """Whether the table holds less than the pipeline has written."""
        return self.taken_away is not None


def read_kept(table: Any, pipeline: str, place: Place | None = None) -> Kept:
    """Find the pipeline's newest commit; OutcomeUnknownError when the log has forgotten what it said.

    `place` is needed for a table that takes options to be read.
    """
    number = table.transaction_version(pipeline)
    if number is None:
        return Kept()
    newest: _Commit | None = None
    for commit in _commits(table, pipeline, place or place_of(table)):
        newest = newest or commit
        # Only a forgotten number differs: then the log has lost the newest commit, and older ones say too little.
        if newest.number != number:
            break
        if commit.is_held:
            taken_away = None if commit is newest else newest.version
            return Kept(owner=newest.owner, number=number, ledger=commit.ledger, taken_away=taken_away)
    if newest is not None and newest.number == number:
        return Kept(owner=newest.owner, number=number, taken_away=newest.version)
    raise OutcomeUnknownError(
        f"pipeline {pipeline!r}: the table's log knows commit {number} of it, and no longer what it said",
        because="entries of the log are removed after delta.logRetentionDuration, or were by hand",
        you_want="compute everything again: another pipeline name, a new table and a new checkpoint folder; and a "
        "delta.logRetentionDuration that is longer than the longest time without a commit",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """One commit of a pipeline, and whether the table as it is now is made from it."""

    version: int
    owner: str
    number: int
    ledger: Ledger
    is_held: bool


def _commits(table: Any, pipeline: str, place: Place) -> Iterator[_Commit]:
    """The commits of a pipeline, newest first, as far as the log has them."""
    restores: dict[int, int] = {}
    for entry in _newest_first(table, place):
        if entry.get("operation") == RESTORED:
            restores[entry["version"]] = int(entry.get("operationParameters", {}).get("version", BY_TIME))
        fields = json.loads(entry.get(METADATA) or "{}")
        if fields.get("pipeline") == pipeline:
            yield _Commit(
                version=entry["version"],
                owner=fields["owner"],
                number=fields["number"],
                ledger=from_text(fields["ledger"]),
                is_held=_has(table.version(), entry["version"], restores),
            )


def taken_away_run(table: Any, pipeline: str, query_id: str, place: Place) -> int | None:
    """The version in which a batch job's run was committed, where a restore has taken it out of the table."""
    for commit in _commits(table, pipeline, place):
        if commit.ledger.last is not None and commit.ledger.last.query_id == query_id:
            return None if commit.is_held else commit.version
    return None  # so old that the log has forgotten it


def _has(version: int, commit: int, restores: Mapping[int, int]) -> bool:
    """Whether this version of the table is made from that commit, over all restores in between."""
    while version > commit:
        if restores.get(version) == BY_TIME:
            raise OutcomeUnknownError(
                f"version {version} of the table is a restore to a time, and does not say which version that was",
                because="so nobody knows which commits the table holds",
                you_want="RESTORE to the version that was meant: that one's entry names it",
            )
        # A restore continues an older version, so what lies between is no part of the table.
        version = restores.get(version, version - 1)
    return version == commit


def _newest_first(table: Any, place: Place) -> Iterator[Mapping[str, Any]]:
    """What the log's entries say of themselves, from this state's version down, as far as the log goes back.

    Why not `history()`: it lists entries that are younger than the state, and numbers them as if they were not.
    """
    files = place.files
    for version in range(table.version(), -1, -1):
        try:
            with files.open_input_file(f"_delta_log/{version:020}.json") as entry:
                lines = entry.read().decode().splitlines()
        except FileNotFoundError:
            return
        said: dict[str, Any] = next((json.loads(line) for line in lines if '"commitInfo"' in line), {})
        yield {**said.get("commitInfo", {}), "version": version}


def next_metadata(
    micro_batch: MicroBatch, kept: Kept, *, owner: str, target: str, table_id: str, rows: int
) -> tuple[int, str]:
    """The number of this micro-batch's commit, and what it says."""
    after = ledger_after(micro_batch, kept.ledger, target, table_id)
    assert after.last is not None, "a micro-batch leaves an entry"
    number = kept.number + 1  # after a restore the ledger is older than the number
    fields = {
        "pipeline": micro_batch.pipeline,
        "number": number,
        "owner": owner,
        "rows": rows,
        "ledger": to_text(replace(after, last=replace(after.last, number=number))),
    }
    return number, json.dumps(fields)
