"""`semel.DeltaSink`: rows of a Spark query into a Delta table, each micro-batch in one entry of its log.

    sink = DeltaSink("/data/orders", partition_by=["day"])
    query = semel.write_stream(df, sink, pipeline="orders", guarantee="exactly_once", checkpoint="/data/checkpoint")

A table that is not there is made with the columns of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semel.errors import ConfigError
from semel.sinks.base import Column, Sink, chosen
from semel.sinks.delta.library import Library
from semel.sinks.delta.place import Place
from semel.sinks.delta.schema import check_fits, check_rules, schema_of
from semel.sinks.delta.session import DeltaSession
from semel.sinks.recovery import LedgerMissing, LostState
from semel.sinks.stamps import with_stamp

_PARTITION_TYPES = ("string", "int", "bigint", "smallint", "tinyint", "date")


@dataclass(init=False, eq=False)
class DeltaSink(Sink):
    """Where rows go; nothing is read before a query starts."""

    path: str
    table_place: Place = field(repr=False)
    partition_by: tuple[str, ...]
    merge_schema: bool
    order_by: None
    ledger_missing: LedgerMissing
    lost_state: LostState
    stamp: bool

    def __init__(
        self,
        path: str | Path,
        *,
        partition_by: Sequence[str] = (),
        merge_schema: bool = False,
        storage_options: Mapping[str, str] | None = None,
        ledger_missing: str = LedgerMissing.STOP,
        lost_state: str = LostState.STOP,
        stamp: bool = False,
    ) -> None:
        """`path` is a folder that the driver and every task can write to, or the address of an object store.

        `storage_options` are for an object store, as `deltalake` takes them; `merge_schema` adds columns that are new.
        `stamp`: no row goes without a column that says which source record it comes from, see `stamps`.
        """
        self.table_place = Place.of(path, storage_options)
        self.path = self.table_place.uri
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.merge_schema = bool(merge_schema)
        self.order_by = None
        self.ledger_missing = chosen(LedgerMissing, "ledger_missing", ledger_missing)
        self.lost_state = chosen(LostState, "lost_state", lost_state)
        self.stamp = bool(stamp)

    @property
    def place(self) -> object:
        """The table: each has its own log, and a pipeline one ledger there."""
        return self.path

    @property
    def _options(self) -> dict[str, str] | None:
        return dict(self.table_place.storage_options) or None

    def _table(self, library: Library) -> Any:
        return library.table(self.path, storage_options=self._options)

    def load(self, library: Library) -> Any:
        """The table as it is now; None when there is none."""
        try:
            return self._table(library)
        except library.not_found:
            return None
        except (library.error, OSError) as error:
            raise self.table_place.refusal(f"the table {self.path} cannot be read", error) from None

    def make(self, library: Library, schema: Any) -> Any:
        """Make an empty table, unless somebody else has, perhaps at this moment; gives it as it is then."""
        failure: Exception = FileNotFoundError("it is not there after it was made")
        try:
            # "ignore" alone is not enough: two drivers that make it
            # at once may both find nothing, and one of them fails.
            library.table.create(
                self.path,
                schema,
                mode="ignore",
                partition_by=list(self.partition_by),
                storage_options=self._options,
            )
        except (library.error, OSError) as error:
            failure = error
        table = self.load(library)
        if table is None:
            raise self.table_place.refusal(f"the table {self.path} could not be made", failure)
        return table

    def widen(self, library: Library, table: Any, columns: Sequence[Column]) -> Any:
        """Add columns that the table does not have, if that is asked for; gives the table as it is then."""
        new = self._new_columns(table, columns)
        if not new or not self.merge_schema:
            return table
        try:
            table.alter.add_columns(list(schema_of(new, library).fields))
        except (library.error, OSError) as error:
            raise self.table_place.refusal(f"the table {self.path} could not be given new columns", error) from None
        # Loaded again: the commit must stand on the version that has the new columns.
        return self._table(library)

    def _new_columns(self, table: Any, columns: Sequence[Column]) -> list[Column]:
        found = {field.name for field in table.schema().fields}
        return [column for column in columns if column.name not in found]

    def check_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Hold the rows against the table, if there is one."""
        library = Library()
        if self.stamp:
            columns = with_stamp(columns)
        self._check_partitions(columns)
        schema_of(columns, library)
        table = self.load(library)
        if table is not None:
            new = self._new_columns(table, columns) if self.merge_schema else []
            self.check_table(table, [column for column in columns if column not in new])
        return tuple(columns)

    def check_table(self, table: Any, columns: Sequence[Column]) -> None:
        """Refuse rows that do not fit, and a table that is divided otherwise."""
        check_rules(table, self.path)
        check_fits(table.schema(), columns, Library(), self.path, to_add=self.words(merge_schema=True))
        divided = tuple(table.metadata().partition_columns)
        if divided != self.partition_by:
            raise ConfigError(
                f"the table {self.path} is partitioned by {list(divided)}, this sink by {list(self.partition_by)}",
                you_want=self.words(partition_by=list(divided)),
            )

    def _check_partitions(self, columns: Sequence[Column]) -> None:
        types = {column.name: column.type for column in columns}
        for name in self.partition_by:
            if types.get(name) not in _PARTITION_TYPES:
                raise ConfigError(
                    f"partition_by={name!r} needs a column of that name and of a type that folders can have",
                    you_wrote=f"{name}: {types.get(name, 'no such column')}",
                    you_want=" | ".join(_PARTITION_TYPES),
                )

    def open(self, pipeline: str, is_called_off: Callable[[], bool] = lambda: False) -> DeltaSession:  # noqa: ARG002
        """Make a session; nothing is read or written yet."""
        return DeltaSession(self, pipeline)
