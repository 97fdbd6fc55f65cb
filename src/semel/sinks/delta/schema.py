"""Spark's columns as a Delta table has them: the log writes types as Spark does, so nothing is translated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from semel.errors import ConfigError
from semel.sinks.base import Column
from semel.sinks.delta.library import Library

_RULES = ("delta.constraints.",)
_FIELD_RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.")
_MAPPING = "delta.columnMapping.mode"
_REFUSED = ("void", "interval", "variant", "char", "varchar")


def schema_of(columns: Sequence[Column], library: Library) -> Any:
    """The schema that rows with these columns have in a table."""
    for column in columns:
        if column.type.startswith(_REFUSED):
            raise ConfigError(
                f"column {column.name!r} is {column.type}, which a Delta table of this kind does not have",
                you_want=f".drop({column.name!r}), or a cast to another type",
            )
    fields = [
        {"name": column.name, "type": json.loads(column.json), "nullable": True, "metadata": {}} for column in columns
    ]
    return library.schema.from_json(json.dumps({"type": "struct", "fields": fields}))


def file_schema(schema: Any, columns: Sequence[Column]) -> pa.Schema:
    """What a file with these columns of the table has, with the nulls that the table allows."""
    whole = pa.schema(schema.to_arrow())
    return pa.schema([whole.field(column.name) for column in columns])


def check_rules(table: Any, path: str) -> None:
    """Refuse a table with rules for its rows: files are written without asking it, so none of them would be kept."""
    settings = table.metadata().configuration
    broken = [name for name in settings if name.startswith(_RULES)]
    if settings.get(_MAPPING, "none") != "none":
        broken.append(f"{_MAPPING}={settings[_MAPPING]}")
    for field in table.schema().fields:
        broken += [f"column {field.name!r}: {name}" for name in field.metadata if name.startswith(_FIELD_RULES)]
    if broken:
        raise ConfigError(
            f"the table {path} has rules that this sink would not keep: {', '.join(broken)}",
            because="tasks write files, and the log takes them as they are",
            you_want="a table without them; or the rule as a filter in the query, before the sink",
        )


def check_fits(schema: Any, columns: Sequence[Column], library: Library, path: str, *, to_add: str) -> None:
    """Refuse rows whose columns are not those of the table; `to_add` is how their user has new ones added."""
    found = {field.name: field for field in schema.fields}
    given = {field.name: field for field in schema_of(columns, library).fields}
    for name, field in given.items():
        if name not in found:
            raise ConfigError(
                f"the table {path} has no column {name!r}",
                you_wrote=f"rows with the columns {sorted(given)}",
                you_want=f"rows without it, or one of {sorted(found)}; or {to_add}, which adds it",
            )
        if field.type != found[name].type:
            raise ConfigError(
                f"column {name!r} is {field.type} in the rows and {found[name].type} in the table {path}",
                you_want=f".withColumn({name!r}, …cast(…))",
            )
    for name, field in found.items():
        if name not in given and not field.nullable:
            raise ConfigError(f"the rows have no column {name!r}, which the table {path} needs")
