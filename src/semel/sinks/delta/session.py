"""The driver's half of the Delta sink: the files of a micro-batch and the ledger in one entry of the table's log.

A driver loads the table, reads the ledger from that state, decides, and commits **on the same state**: the log refuses
the entry when the pipeline's number has changed since. On a state that was loaded later the same number would be taken
a second time. So nobody has to be fenced beforehand: of two drivers one wins, and the other learns it.

Keeps: E3 after an unknown outcome the table is loaded again and its log says who made the pipeline's last commit; E22
       files are looked at before they are named; E23 by the above.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError, FencedError, NoSpaceError, OutcomeUnknownError, SemelError, SinkError
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode
from semel.sinks.base import (
    KEPT_FOREVER,
    Attempts,
    Column,
    MicroBatch,
    Results,
    RowsAhead,
    Stage,
    StagedSession,
    WritePlan,
)
from semel.sinks.delta.ledger import METADATA, Kept, next_metadata, read_kept, taken_away_run
from semel.sinks.delta.library import Library
from semel.sinks.delta.rows import RESULT, WriteFiles
from semel.sinks.delta.schema import file_schema, schema_of
from semel.sinks.ledger import Ledger, under_name
from semel.sinks.recovery import Decision, Evidence, Plan, Situation, Words, decide
from semel.sinks.run_ids import check_kind

if TYPE_CHECKING:
    from semel.sinks.delta.sink import DeltaSink

TASKS_MAX = 1 << 10


class DeltaSession(StagedSession):
    """One driver's hold on a pipeline in a Delta table."""

    final = (ConfigError, NoSpaceError)

    def __init__(self, sink: DeltaSink, pipeline: str) -> None:
        """Nothing is read yet."""
        self.sink = sink
        self.pipeline = pipeline
        self._place = sink.table_place
        self._owner = uuid.uuid4().hex
        self._table: Any = None  # the state that decisions are made on; None: there is no table
        self._kept = Kept()
        self._committed: int | None = None  # the number of this driver's last commit
        self._is_begun = False
        self._expected = ""  # what was staged before
        self._actions: list[Any] = []
        self._rows = 0
        self._metadata: tuple[int, str] = (0, "")
        self._transactions: list[tuple[str, int]] = []

    @cached_property
    def _library(self) -> Library:
        return Library()

    # --- ownership and ledger

    def own(self) -> str:
        """Load the table; FencedError if another driver has committed since this one did."""
        self._load()
        # The number alone is not enough: another driver may have committed the same one.
        if self._committed is not None and (self._kept.number, self._kept.owner) != (self._committed, self._owner):
            raise self._taken_over()
        return self._owner

    def _load(self) -> None:
        self._table = self.sink.load(self._library)
        kept = Kept() if self._table is None else read_kept(self._table, self.pipeline, self._place)
        # The ledger is part of the table: wherever that was moved to, it says what is there.
        self._kept = replace(kept, ledger=under_name(kept.ledger, self._target, self._table_id))

    def _taken_over(self) -> FencedError:
        return FencedError(
            f"pipeline {self.pipeline!r}: a newer driver has taken over",
            code=ErrorCode.PRODUCER_FENCED,
            because="the table's log has a commit of this pipeline by another driver; this one writes nothing any more",
        )

    def read_ledger(self, micro_batch: MicroBatch) -> Ledger:
        """From the state that the commit will be made on."""
        if micro_batch.guarantee is Guarantee.AT_LEAST_ONCE:
            self._load()  # such a driver owns nothing
        check_kind(self._kept.ledger.last, micro_batch)
        return self._kept.ledger

    def decide(self, micro_batch: MicroBatch, *, is_stateful: bool, checkpoint: str) -> Decision:
        """Hold the micro-batch, or a batch job's run, against the ledger."""
        if micro_batch.run is not None:
            return self._decide_run(micro_batch, micro_batch.run.id)
        holds_rows = self._table is not None and self._kept.ledger.is_empty and bool(self._table.file_uris())
        return decide(
            Situation(
                ledger=self._kept.ledger,
                micro_batch=micro_batch,
                evidence=Evidence(
                    topic_ids=dict(micro_batch.topic_ids) | {self._target: self._table_id},
                    output_holds_records=holds_rows,
                    is_of_the_cluster=False,
                ),
                targets=(self._target,),
                is_stateful=is_stateful,
                ledger_missing=self.sink.ledger_missing,
                lost_state=self.sink.lost_state,
                checkpoint=checkpoint,
                words=self._words(),
            )
        )

    def _decide_run(self, micro_batch: MicroBatch, run_id: str) -> Decision:
        table = self._table
        if table is None or table.transaction_version(self._run_id(micro_batch)) is None:
            return Decision(action=Plan.RUN, row="", reason=f"run {run_id!r} is new")
        version = taken_away_run(table, self.pipeline, micro_batch.query_id, self._place)
        if version is not None:
            raise ConfigError(
                f"pipeline {self.pipeline!r}: run {run_id!r} was written in version {version} of the table, which was "
                "restored to an older version since",
                because="under the same run id nothing is written again, and its rows would stay missing",
                you_want=f"RESTORE to version {version}, which has them; or another run_id, to write them again",
            )
        return Decision(action=Plan.SKIP, row="", reason=f"run {run_id!r} was written before")

    @property
    def _target(self) -> str:
        """How the ledger names the table; with a slash, which no topic name has."""
        return f"delta/{self.sink.path}"

    @property
    def _table_id(self) -> str:
        """The id that the log gives the table; a table that was made again has another one."""
        return "none" if self._table is None else str(self._table.metadata().id)

    def _words(self) -> Words:
        offsets: dict[str, dict[str, int]] = {}
        for partition, offset in sorted(self._kept.ledger.offsets.items()):
            offsets.setdefault(partition.topic, {})[str(partition.partition)] = offset
        restored = ""
        if self._kept.taken_away is not None:
            restored = (
                "the table was restored to an older version since the pipeline's last commit; RESTORE to version "
                f"{self._kept.taken_away} brings that back"
            )
        return Words(
            sink="DeltaSink",
            by_option=self.sink.by_option,
            output="table",
            forgetting=restored
            or "the table may have been written before by somebody else, or under another pipeline name",
            falling_behind=restored,
            start_at_ledger=f".option(\"startingOffsets\", '{json.dumps(offsets)}') on the source",
        )

    def prepare_run(self, micro_batch: MicroBatch) -> int | None:
        """Refuse a batch job in a query's pipeline; the log keeps application ids."""
        self._load()
        check_kind(self._kept.ledger.last, micro_batch)
        return KEPT_FOREVER

    def _run_id(self, micro_batch: MicroBatch) -> str:
        return f"{self.pipeline}:{micro_batch.query_id}"

    # --- rows

    def begin(self) -> None:
        """From here on files wait for the log entry that names them."""
        self._is_begun = True

    def plan_write(self, micro_batch: MicroBatch, rows: RowsAhead, *, run: int) -> WritePlan:
        """One stage of tasks that write files; any attempt may, since each has names of its own."""
        self._fit(rows.columns)
        # Another driver, micro-batch or run has other names.
        staging = self._expected or f"{self._owner[:12]}-{micro_batch.id}-{run}"
        work = self._files(rows.columns, staging)
        stage = Stage(task=work, gives=RESULT, tasks=rows.writers(TASKS_MAX))
        return WritePlan(
            stages=(stage,), attempts=Attempts.ANY, row_bytes_max=self.take_row_bytes_max(micro_batch, rows, run=run)
        )

    def _fit(self, columns: Sequence[Column]) -> None:
        """Make or widen the table if need be; refuse rows that do not fit it."""
        table = self._table
        if table is None:
            table = self.sink.make(self._library, schema_of(columns, self._library))
        table = self.sink.widen(self._library, table, columns)
        # A table that was made or changed is younger than the state that was decided on: another driver may have
        # committed in between (E23).
        if table is not self._table and read_kept(table, self.pipeline, self._place).number != self._kept.number:
            raise SinkError(f"pipeline {self.pipeline!r}: another driver has written since the ledger was read")
        self._table = table
        self.sink.check_table(self._table, columns)

    def _files(self, columns: Sequence[Column], staging: str) -> WriteFiles:
        return WriteFiles(
            place=self._place,
            prefix=self._prefix(staging),
            schema=file_schema(self._table.schema(), columns).serialize().to_pybytes(),
            partition_by=self.sink.partition_by,
        )

    def _prefix(self, staging: str) -> str:
        """What the names of one job's files begin with; they end with the attempt and a number."""
        return f"semel-{sha256(self.pipeline.encode()).hexdigest()[:8]}-{staging}"

    def staging_task(self, columns: Sequence[Column], staging: str) -> WriteFiles:
        """Write files for the table as it is now; one that is not there is made."""
        self._load()
        self._fit(columns)
        return self._files(columns, staging)

    def expect(self, staging: str) -> None:
        """Nothing is removed before a commit, so the name alone is remembered."""
        self._expected = staging

    def drop(self, staging: str) -> None:
        """Remove files that the table does not have: the same ones may have been committed before."""
        table = self.sink.load(self._library)
        named = set() if table is None else {Path(one).name for one in table.file_uris()}
        self._remove(self._prefix(staging), named)

    def prepare(self, results: Results) -> int:
        """Look at the files and name them; outside a transaction that is the commit of the rows."""
        self._actions = self._looked_at(results)
        self._rows = sum(int(row["records"]) for row in results)
        self.row_bytes_max = max((int(row["row_bytes_max"]) for row in results), default=0)
        if not self._is_begun and self._actions:
            actions, self._actions = self._actions, []
            try:
                self._append(actions, None, [])
            except (self._library.error, OSError) as error:
                raise self._place.refusal(f"pipeline {self.pipeline!r}: its files were not added", error) from None
        return self._rows

    def _looked_at(self, results: Results) -> list[Any]:
        """Name the files as they are seen from here: one on a disk of a machine that is gone must not be in the log."""
        try:
            seen = self._place.files.get_file_info([str(row["file"]) for row in results])
        except OSError as error:
            raise self._place.refusal(f"pipeline {self.pipeline!r}: its files cannot be looked at", error) from None
        for row, found in zip(results, seen, strict=True):
            if not found.is_file or found.size != row["bytes"]:
                place = f"{self._place.uri}/{row['file']}"
                raise SinkError(f"pipeline {self.pipeline!r}: the file {place} is not there as a task has written it")
        return [
            self._library.add_action(
                row["file"],
                found.size,
                json.loads(row["partition"]),
                (found.mtime_ns or 0) // 1_000_000,
                True,
                json.dumps({"numRecords": row["records"]}),
            )
            for row, found in zip(results, seen, strict=True)
        ]

    # --- the end

    def write_ledger(self, micro_batch: MicroBatch) -> None:
        """Prepare the text of the log's entry; nothing is written yet."""
        if self._table is None:
            raise SinkError(f"pipeline {self.pipeline!r}: there is no table to write a ledger into")
        rows = self._rows if self._is_begun else 0
        self._metadata = next_metadata(
            micro_batch,
            self._kept,
            owner=self._owner,
            target=self._target,
            table_id=self._table_id,
            rows=rows,
        )
        self._transactions = [(self.pipeline, self._metadata[0])]
        if micro_batch.run is not None:
            self._transactions.append((self._run_id(micro_batch), 1))

    def commit(self) -> None:
        """Write the entry on the state that the ledger was read from; look when the outcome is unknown."""
        actions = self._actions if self._is_begun else []
        self._is_begun, self._actions = False, []
        number, said = self._metadata
        try:
            self._append(actions, said, self._transactions)
        except (self._library.error, OSError) as error:
            self._look(error, number)
        self._committed = number
        self._remove_others(actions)

    def _append(self, actions: list[Any], said: str | None, transactions: list[tuple[str, int]]) -> None:
        table = self._table
        properties = self._library.properties(
            custom_metadata={METADATA: said} if said is not None else None,
            app_transactions=[self._library.transaction(name, version) for name, version in transactions],
        )
        table.create_write_transaction(
            actions, "append", table.schema(), list(self.sink.partition_by), commit_properties=properties
        )

    def _look(self, error: Exception, number: int) -> None:
        """Load the table again and see who made the commit with this number."""
        try:
            self._load()
        except (SemelError, self._library.error, OSError) as second:
            raise OutcomeUnknownError(
                f"pipeline {self.pipeline!r}: nobody knows whether its last micro-batch was committed",
                because=f"{self._place.told(error)}; then {self._place.told(second)}",
                you_want="start the query again from the same checkpoint: the table's log decides",
            ) from error
        # The log has no commit with this number, so ours was refused or never came.
        if self._kept.number < number:
            raise self._place.refusal(f"pipeline {self.pipeline!r}: the commit did not happen", error) from error
        if self._kept.owner != self._owner:
            raise self._taken_over() from error

    def _remove_others(self, actions: list[Any]) -> None:
        """Files of this run that no result names are those of attempts that failed."""
        if not actions:
            return
        prefix = Path(actions[0].path).name.rsplit("-", 2)[0]
        self._remove(prefix, {Path(action.path).name for action in actions})

    def _remove(self, prefix: str, but: Collection[str]) -> None:
        self._place.remove(prefix, of_job=prefix, but=but)

    def abort(self) -> None:
        """Forget the files: what no entry names is no part of the table, and vacuum removes it."""
        self._is_begun, self._actions = False, []

    def commit_ledger(self, micro_batch: MicroBatch) -> None:
        """For at least once: an entry without files."""
        self._load()
        super().commit_ledger(micro_batch)
