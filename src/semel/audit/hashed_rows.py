"""The rows of a side as the comparison reads them: hashes of identity and content, and what else was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812

from semel.audit.charting import place_of
from semel.audit.comparing import READ_AT
from semel.audit.failures import NO_POSITION
from semel.audit.normal_form import hash_of, types_of
from semel.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from semel.audit.sides import Side


def filtered(frame: DataFrame, where: str) -> DataFrame:
    """The left rows that are expected at all; ConfigError for SQL that cannot be read."""
    if not where:
        return frame
    try:
        return frame.where(where)
    except (AnalysisException, ParseException) as error:
        raise ConfigError(
            f"where={where!r} cannot be read on the left side",
            you_want=f"SQL that is true or false, over {', '.join(frame.columns)}",
            because=str(error).split("\n", maxsplit=1)[0],
        ) from None


def mark_of(rows: DataFrame) -> Column:
    """The hash of identity and content: where no content is compared beside it, the identity is all."""
    return rows["mark" if "mark" in rows.columns else "id"]


def hashed_rows(
    side: Side, keys: list[Column], contents: list[Column], *, with_order: bool, with_charts: bool, side_name: str
) -> DataFrame:
    """Hashes instead of values: `id`, `mark` where content is compared beside it, and what else is asked for."""
    # Without a key the whole row is the identity.
    columns = {"id": hash_of(keys or contents)}
    if keys and contents:
        columns["mark"] = hash_of(contents, columns["id"])
    # Grows in the order in which Spark reads the side: the examples are those that it reads first.
    columns[READ_AT] = F.monotonically_increasing_id()
    if with_order:
        types_of(side.frame, [side.position, *([side.stream] if side.stream else [])], side_name)
        position = F.expr(side.position).cast("bigint")
        refused = F.raise_error(F.lit(f"{NO_POSITION}, {side_name} side")).cast("bigint")
        columns["position"] = F.when(position.isNotNull(), position).otherwise(refused)
        columns["stream"] = hash_of([F.expr(side.stream)]) if side.stream else F.lit(0).cast("bigint")
    if side.unit:
        types_of(side.frame, [side.unit], side_name)
        columns["unit"] = hash_of([F.expr(side.unit)])
    if with_charts:
        columns[f"{side_name}_at"] = place_of(side, side_name)
    return side.frame.select(*(column.alias(name) for name, column in columns.items()))
