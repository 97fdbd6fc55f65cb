"""The sides of an audit: what is looked at before Spark starts, and the rows that it then reads.

A wrong address, name or password should not cost the start of Spark. So topics, ledgers and logs of Delta tables are
read first; a ledger in PostgreSQL holds its moment until the audit is over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from semel.cli.connecting import cluster_of, connection_options
from semel.cli.output import narrate
from semel.errors import ConfigError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semel.audit.bounds import Bounds
    from semel.audit.delta_tables import DeltaVersion
    from semel.audit.jdbc import JdbcSettings
    from semel.audit.ledgers import TableLedger
    from semel.audit.plan import AuditPlan, SidePlan
    from semel.audit.sides import Side
    from semel.audit.topics import Located


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What is known of all sides at one moment: the left one, then the right ones."""

    bounds: tuple[Bounds | None, ...]
    versions: Mapping[str, DeltaVersion]
    ledger: TableLedger | None


@contextmanager
def look_at_sides(plan: AuditPlan) -> Iterator[Looked]:
    """Ask clusters, databases and logs; what a database holds for the audit ends with the block."""
    from semel.audit.delta_tables import DeltaVersion
    from semel.audit.places import Files

    versions = {
        one.place.text: DeltaVersion.now(one.place)
        for one in plan.sides
        if isinstance(one.place, Files) and one.place.form == "delta"
    }
    for one in plan.sides:
        jdbc_settings(plan, one)  # what is wrong in a file is told now
    with _table_ledger(plan, versions) as ledger:
        bounds = _bounds(plan) if ledger is None else _bounds_by_table(plan, ledger)
        ours = bounds[0]
        if ours is not None and ours.left_out:
            narrate(f"{ours.left_out:,} offsets of the source are behind the ledger's end: under way, and not judged")
        yield Looked(bounds=bounds, versions=versions, ledger=ledger)


@contextmanager
def _table_ledger(plan: AuditPlan, versions: Mapping[str, DeltaVersion]) -> Iterator[TableLedger | None]:
    """The ledger of the one table that a pipeline writes; None without a pipeline, and for one that writes topics."""
    from semel.audit.jdbc import conninfo_of
    from semel.audit.places import Table, Topic
    from semel.audit.postgres_moment import postgres_moment

    places = [one.place for one in plan.rights]
    # Topics have their ledger with Kafka, where `bound_topics` asks for it.
    if not plan.pipeline or not isinstance(plan.left.place, Topic) or all(isinstance(one, Topic) for one in places):
        yield None
        return
    (place, *more) = places
    if more:
        raise ConfigError(
            "a pipeline has one ledger, and there are several right sides of which one is no topic",
            you_want="one audit for each of them",
        )
    if isinstance(place, Table):
        conninfo = conninfo_of(place, jdbc_settings(plan, plan.rights[0]))
        with postgres_moment(conninfo, place.table, plan.pipeline) as ledger:
            yield ledger
    elif place.text in versions:
        yield versions[place.text].ledger(plan.pipeline)
    else:
        yield None  # and `bound_topics` says why not


def _bounds(plan: AuditPlan) -> tuple[Bounds | None, ...]:
    """Which offsets are read, for each side that is a topic."""
    from semel.audit.topics import bound_topics

    left, *rights = (_located(one) for one in plan.sides)
    topics = [one for one in rights if one is not None]
    ours, theirs = bound_topics(left, topics, plan.pipeline, plan.guarantee or Guarantee.EXACTLY_ONCE)
    found = iter(theirs)
    return (ours, *(next(found) if one is not None else None for one in rights))


def _bounds_by_table(plan: AuditPlan, ledger: TableLedger) -> tuple[Bounds | None, ...]:
    from semel.audit.topics import bound_source

    left = _located(plan.left)
    assert left is not None
    return bound_source(left, ledger, plan.pipeline, plan.guarantee or Guarantee.EXACTLY_ONCE)


def _located(side: SidePlan) -> Located | None:
    from semel.audit.places import Topic

    if not isinstance(side.place, Topic):
        return None
    return side.place, cluster_of(side.place.bootstrap, side.command_config or None)


def jdbc_settings(plan: AuditPlan, side: SidePlan) -> JdbcSettings:
    """How a table is read: by the file that the side names, and by the login of the environment."""
    from semel.audit.jdbc import PASSWORD, USER, JdbcSettings
    from semel.audit.places import Table
    from semel.check.gathering.files import read_file

    given = {name: str(value) for name, value in read_file(side.jdbc_config).items()} if side.jdbc_config else {}
    urls = {one.place.url for one in plan.sides if isinstance(one.place, Table)}
    environment = {name: os.environ[name] for name in (USER, PASSWORD) if os.environ.get(name)}
    # A password for one database must not be sent to another one.
    if isinstance(side.place, Table) and len(urls) > 1 and environment and not {"user", "password"} & given.keys():
        raise ConfigError(
            f"{' and '.join(environment)} may be meant for either of two databases",
            you_want="jdbc_config = FILE for each side, with user and password, in the file of the audit",
        )
    return JdbcSettings.of(given, environment if len(urls) == 1 else {}, side.jdbc_config or "the environment")


def rows_of_sides(spark: SparkSession, plan: AuditPlan, looked: Looked) -> list[Side]:
    """All sides as rows, the left one first."""
    from semel.audit.stamped_sides import known_by_place, known_by_stamp

    pairs = zip(plan.sides, looked.bounds, strict=True)
    left, *rights = (_side(spark, plan, one, bounds, looked) for one, bounds in pairs)
    if plan.stamp or _is_stamped(plan, rights):
        left, rights = known_by_place(left, plan.content), [known_by_stamp(one, plan.content) for one in rights]
        if not plan.content:
            narrate("records are known by their stamps; their content is not compared, because --content names none")
    if looked.ledger is not None:
        commits = looked.ledger.commits(plan.left.place.name)  # type: ignore[union-attr]
        rights = [replace(one, commits=commits) for one in rights]
    return [replace(left, unit=plan.unit), *rights]


def _is_stamped(plan: AuditPlan, rights: list[Side]) -> bool:
    """Whether the stamp is the identity though nobody said so: no other one is given, and all tables have stamps."""
    from semel.audit.places import Topic
    from semel.audit.stamped_sides import has_stamps

    if plan.key or plan.content is not None or not isinstance(plan.left.place, Topic) or not has_stamps(rights):
        return False
    narrate("the right side keeps the source offset of each record: that is its identity")
    return True


def _side(spark: SparkSession, plan: AuditPlan, side: SidePlan, bounds: Bounds | None, looked: Looked) -> Side:
    from semel.audit.places import Topic
    from semel.audit.sides import with_columns
    from semel.audit.tables import table_side
    from semel.audit.topics import topic_side

    if isinstance(side.place, Topic):
        assert bounds is not None
        connection = connection_options(side.place.bootstrap, side.command_config or None)
        found = topic_side(spark, side.place, bounds, connection, with_headers=plan.stamp and side is not plan.left)
        if plan.order:
            found = replace(found, position="offset", stream="partition")
    elif side.place.text in looked.versions:
        found = looked.versions[side.place.text].side(spark)
    else:
        first = looked.ledger.moment if looked.ledger is not None else ""
        found = table_side(spark, side.place, jdbc_settings(plan, side), first)
    if bounds is not None and not isinstance(side.place, Topic):
        found = replace(found, incomplete=bounds.incomplete)
    found = with_columns(found, side.columns)
    return replace(found, time=side.time) if side.time else found
