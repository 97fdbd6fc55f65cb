"""One side of an audit: rows, and how to read in them who a record is, what it says and where it stands.

Every text is an SQL expression over the columns of the frame, so the two sides need no columns in common:

    Side(orders, key="id", content=("amount",)), Side(payments, key="order_id", content=("cents / 100",))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from semel.audit.finding import Incomplete
from semel.audit.ledger_gaps import Commit
from semel.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Side:
    """Rows and the expressions that read them; what is empty is not given."""

    frame: DataFrame
    name: str = ""
    key: str | Sequence[str] = ()
    """Who a record is. Empty: the whole row is its own identity."""
    content: str | Sequence[str] | None = None
    """What is compared between records of one identity. None: the columns that both sides have; empty: nothing."""
    coordinate: str = ""
    """Where a record stands, for people: shown in examples."""
    position: str = ""
    """A whole number that grows in the order of the records. REORDERED is looked for if both sides have one."""
    stream: str = ""
    """Records are in order within one value of it, such as a partition or a key. Empty: all records are one stream."""
    unit: str = ""
    """What a record was written with: a transaction, a micro-batch. TORN is looked for if the left side has one."""
    time: str = ""
    """When a record was written, a timestamp or a date: drawn in charts."""
    lane: str = ""
    """What charts draw apart from each other, such as a partition. Empty: the side is one lane."""
    keeps_hashes: bool = False
    """Reading it is slow: its hashes are kept on Spark's disks while the audit runs, and it is read again only as far
    as the examples are."""
    aside: tuple[str, ...] = ()
    """Columns that say where a record stands and not what it is: not compared, unless `content` names them."""
    incomplete: tuple[Incomplete, ...] = ()
    """What this side is known to lack."""
    commits: tuple[Commit, ...] = ()
    """What each commit covers of the source, as the ledger of the right side says. LEDGER_GAP is looked for then."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The expressions of the identity, also if only one was given."""
        return as_expressions(self.key)


def with_columns(side: Side, named: Mapping[str, str]) -> Side:
    """The side with more columns, from SQL expressions; ConfigError for one that cannot be read."""
    from semel.audit.normal_form import types_of  # noqa: PLC0415 - brings PySpark

    if not named:
        return side
    # Before Spark does it, whose error would not say which side it is about.
    types_of(side.frame, tuple(named.values()), side.name)
    quoted = (f"({text}) AS `{name.replace('`', '``')}`" for name, text in named.items())
    return replace(side, frame=side.frame.selectExpr("*", *quoted))


def as_expressions(given: str | Sequence[str]) -> tuple[str, ...]:
    """One expression or several, as a tuple; ConfigError for an empty one."""
    found = (given,) if isinstance(given, str) and given else tuple(given)
    if not all(one.strip() for one in found):
        raise ConfigError("an expression is empty", you_want="the name of a column, or SQL over columns")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Which expressions of both sides belong together, in order."""

    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    left_content: tuple[str, ...]
    right_content: tuple[str, ...]
    not_compared: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """The identity for people."""
        if not self.left_key:
            return "the whole row"
        pairs = zip(self.left_key, self.right_key, strict=True)
        return ", ".join(one if one == other else f"{one} = {other}" for one, other in pairs)

    @property
    def has_content(self) -> bool:
        """Whether records of one identity can differ: with the whole row as identity they cannot."""
        return bool(self.left_key and self.left_content)

    @property
    def content(self) -> tuple[str, ...]:
        """The compared expressions for people, as the left side names them."""
        return self.left_content


def plan_reading(left: Side, right: Side) -> Reading:
    """Decide what is compared with what; ConfigError where the sides do not fit together."""
    _check_order_and_unit(left, right)
    if len(left.keys) != len(right.keys):
        raise ConfigError(
            "the two sides have keys of different length",
            you_wrote=f"{', '.join(left.keys) or 'no key'} | {', '.join(right.keys) or 'no key'}",
            you_want="as many expressions on both sides: each is compared with the one at its place",
        )
    if (left.content is None) != (right.content is None):
        raise ConfigError(
            "content is given for one side only", you_want="expressions for both sides, or for none of them"
        )
    if left.content is not None and right.content is not None:
        ours, theirs = as_expressions(left.content), as_expressions(right.content)
        if len(ours) != len(theirs):
            raise ConfigError(
                "the two sides have content of different length",
                you_wrote=f"{', '.join(ours)} | {', '.join(theirs)}",
                you_want="as many expressions on both sides: each is compared with the one at its place",
            )
        if not left.keys and not ours:
            raise ConfigError("there is neither a key nor content to compare", you_want='key="order_id"')
        return Reading(
            left_key=left.keys,
            right_key=right.keys,
            left_content=ours,
            right_content=theirs,
            # Who names content knows what else there is; who compares none is told what that leaves out.
            not_compared=() if ours else _columns_beside_the_keys(left, right),
        )
    return _common_columns(left, right)


def _check_order_and_unit(left: Side, right: Side) -> None:
    """Refuse what would be read and then do nothing."""
    if bool(left.position) != bool(right.position):
        raise ConfigError("an order has a position on both sides", you_want="position=… on the other side, too")
    if (left.stream or right.stream) and not left.position:
        raise ConfigError("a stream has no order without a position", you_want="position=… beside stream=…")
    if left.commits:
        raise ConfigError("commits belong to the right side", because="the ledger lives with the output")
    if right.unit:
        raise ConfigError(
            "a unit belongs to the left side",
            because="it says what was written together, to look for parts that arrived",
        )


def _common_columns(left: Side, right: Side) -> Reading:
    """What has the same name on both sides, except the keys, which are compared already, and what is set aside."""
    aside = {*left.aside, *right.aside}
    ours = [one for one in left.frame.columns if one not in aside]
    theirs = [one for one in right.frame.columns if one not in aside]
    common = [one for one in ours if one in theirs]
    alone = tuple(one for one in (*ours, *theirs) if one not in common)
    # Without a key the whole row is the identity, so the rows must have the same columns.
    if not left.keys and (alone or not common):
        raise ConfigError(
            "the sides have different columns, and no key says which records belong together",
            you_wrote=f"columns of one side alone: {', '.join(alone) or 'none; there are no columns at all'}",
            you_want='key="order_id", or content=(…) with what to compare',
        )
    keys = {*left.keys, *right.keys}
    compared = tuple(f"`{one.replace('`', '``')}`" for one in common if one not in keys)
    # The key of one side may be something else on the other: an order's `id`, and a payment's own `id`.
    half_keys = tuple(one for one in common if (one in left.keys) != (one in right.keys))
    return Reading(
        left_key=left.keys,
        right_key=right.keys,
        left_content=compared,
        right_content=compared,
        not_compared=(*half_keys, *(one for one in alone if one not in keys)),
    )


def _columns_beside_the_keys(left: Side, right: Side) -> tuple[str, ...]:
    """The columns of both sides, each once, without keys and without what is set aside."""
    left_out = {*left.keys, *right.keys, *left.aside, *right.aside}
    return tuple(dict.fromkeys(one for one in (*left.frame.columns, *right.frame.columns) if one not in left_out))
