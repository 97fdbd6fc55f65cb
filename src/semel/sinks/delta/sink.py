"""`semel.DeltaSink`: rows of a Spark query into a Delta table, each micro-batch in one entry of its log.

    sink = DeltaSink("/data/orders", partition_by=["day"])
    query = semel.write_stream(df, sink, pipeline="orders", guarantee="exactly_once", checkpoint="/data/checkpoint")

A table that is not there is made with the columns of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.errors import ConfigError, SinkError
from semel.sinks.base import Column, Sink, chosen
from semel.sinks.delta.library import Library
from semel.sinks.delta.schema import check_fits, check_rules, schema_of
from semel.sinks.delta.session import DeltaSession
from semel.sinks.recovery import LedgerMissing, LostState

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_PARTITION_TYPES = ("string", "int", "bigint", "smallint", "tinyint", "date")


@dataclass(init=False, eq=False)
class DeltaSink(Sink):
    """Where rows go; nothing is read before a query starts."""

    path: str
    partition_by: tuple[str, ...]
    merge_schema: bool
    order_by: None
    ledger_missing: LedgerMissing
    lost_state: LostState

    def __init__(
        self,
        path: str | Path,
        *,
        partition_by: Sequence[str] = (),
        merge_schema: bool = False,
        ledger_missing: str = LedgerMissing.STOP,
        lost_state: str = LostState.STOP,
    ) -> None:
        """`path` is a folder that the driver and every task can write to; `merge_schema` adds columns that are new."""
        text = str(path)
        if not text or _SCHEME.match(text):
            raise ConfigError(
                f"{text!r} is no folder of this machine",
                because="object stores are not written to yet",
                you_want="a path that the driver and all executors see, such as a mounted volume",
            )
        self.path = str(Path(text).absolute())
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.merge_schema = bool(merge_schema)
        self.order_by = None
        self.ledger_missing = chosen(LedgerMissing, "ledger_missing", ledger_missing)
        self.lost_state = chosen(LostState, "lost_state", lost_state)

    @property
    def place(self) -> object:
        """The table: each has its own log, and a pipeline one ledger there."""
        return self.path

    def load(self, library: Library) -> Any:
        """The table as it is now; None when there is none."""
        try:
            return library.table(self.path)
        except library.not_found:
            return None
        except (library.error, OSError) as error:
            raise SinkError(f"the table {self.path} cannot be read", because=str(error)) from None

    def make(self, library: Library, schema: Any) -> Any:
        """Make an empty table, unless somebody else has, perhaps at this moment; gives it as it is then."""
        because = ""
        try:
            # "ignore" alone is not enough: two drivers that make it
            # at once may both find nothing, and one of them fails.
            library.table.create(self.path, schema, mode="ignore", partition_by=list(self.partition_by))
        except (library.error, OSError) as error:
            because = str(error)
        table = self.load(library)
        if table is None:
            raise SinkError(f"the table {self.path} could not be made", because=because)
        return table

    def widen(self, library: Library, table: Any, columns: Sequence[Column]) -> Any:
        """Add columns that the table does not have, if that is asked for; gives the table as it is then."""
        new = self._new_columns(table, columns)
        if not new or not self.merge_schema:
            return table
        try:
            table.alter.add_columns(list(schema_of(new, library).fields))
        except (library.error, OSError) as error:
            raise SinkError(f"the table {self.path} could not be given new columns", because=str(error)) from None
        # Loaded again: the commit must stand on the version that has the new columns.
        return library.table(self.path)

    def _new_columns(self, table: Any, columns: Sequence[Column]) -> list[Column]:
        found = {field.name for field in table.schema().fields}
        return [column for column in columns if column.name not in found]

    def check_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Hold the rows against the table, if there is one."""
        library = Library()
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
