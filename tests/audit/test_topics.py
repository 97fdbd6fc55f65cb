"""What a cluster says about topics, and what of them an audit may judge: on a real embedded cluster, without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing
from uuid import uuid4

import pytest

from semel.audit.bounds import Bounds
from semel.audit.finding import Gap, Place
from semel.audit.places import Topic, parse_place
from semel.audit.topics import LEDGER_TRIES_MAX, bound_topics
from semel.engine.embedded import Cluster
from semel.errors import ConfigError, SemelError
from semel.guarantee import Guarantee
from semel.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from semel.sinks.base import MicroBatch
from semel.sinks.kafka.ledger import ledger_entries
from semel.sinks.ledger import Ledger
from semel.wire.cluster import WireCluster
from semel.wire.deadline import Deadline
from semel.wire.offsets import commit_offsets
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicInfo, TopicPartition
from tests.support.topics import create_topic, produce
from tests.support.transactional import RawTransactions
from tests.support.wire import Wire


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[WireCluster]:
    made = WireCluster(WireSettings.from_options({"kafka.bootstrap.servers": cluster.bootstrap}))
    yield made
    made.close()


def located(client: WireCluster, cluster: Cluster, name: str) -> tuple[Topic, WireCluster]:
    place = parse_place(f"kafka://{cluster.bootstrap}/{name}")
    assert isinstance(place, Topic)
    return place, client


def bounds_of(client: WireCluster, cluster: Cluster, name: str) -> Bounds:
    _, (bounds,) = bound_topics(None, [located(client, cluster, name)])
    return bounds


def test_a_whole_topic_and_a_window_by_time(cluster: Cluster, client: WireCluster) -> None:
    create_topic(cluster, "whole", partitions=2)
    produce(cluster, "whole", 5)  # a millisecond apart
    assert bounds_of(client, cluster, "whole") == Bounds(ranges={0: (0, 5), 1: (0, 0)}, incomplete=())
    window = bounds_of(client, cluster, "whole?from=2023-11-14T22:13:20.002&to=2023-11-14T22:13:20.004")
    assert window.ranges == {0: (2, 4), 1: (0, 0)}
    assert [one.gap for one in window.incomplete] == [Gap.WINDOW, Gap.WINDOW]
    late = bounds_of(client, cluster, "whole?from=2024-01-01")
    assert late.ranges == {0: (5, 5), 1: (0, 0)}


def test_an_open_transaction_holds_back_what_follows_it(cluster: Cluster, client: WireCluster) -> None:
    create_topic(cluster, "held")
    produce(cluster, "held", 2)
    writer = RawTransactions(cluster, "open", newer=False)
    assert [writer.init(), writer.add("held"), writer.send("held", "x")] == [0, 0, 0]
    produce(cluster, "held", 1)
    bounds = bounds_of(client, cluster, "held")
    assert (bounds.ranges, [one.gap for one in bounds.incomplete]) == ({0: (0, 2)}, [Gap.OPEN_TRANSACTION])
    everything = bounds_of(client, cluster, "held?isolation=read_uncommitted")
    assert (everything.ranges, everything.incomplete) == ({0: (0, 4)}, ())
    # Decided, it is whole again: the marker uses an offset, and that is no loss.
    assert writer.end(writer.end_request(commit=False)) == 0
    assert bounds_of(client, cluster, "held") == Bounds(ranges={0: (0, 5)}, incomplete=())


def test_what_retention_and_compaction_take_away(cluster: Cluster, client: WireCluster) -> None:
    create_topic(cluster, "expired")
    produce(cluster, "expired", 4)
    place = DeleteRecordsPartition(partition_index=0, offset=3)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="expired", partitions=[place])], timeout_ms=5000)
    with Wire.to_leader(cluster, "expired", 0) as wire:
        assert wire.ask(request, DeleteRecordsResponse).topics[0].partitions[0].low_watermark == 3
    bounds = bounds_of(client, cluster, "expired")
    assert (bounds.ranges, [one.gap for one in bounds.incomplete]) == ({0: (3, 4)}, [Gap.RETENTION])
    create_topic(cluster, "compacted", config={"cleanup.policy": "compact,delete"})
    assert [one.gap for one in bounds_of(client, cluster, "compacted").incomplete] == [Gap.COMPACTION]


def commit(
    client: WireCluster, pipeline: str, source: str, target: str, end: int, *, source_id: str | None = None
) -> None:
    batch = MicroBatch(
        pipeline=pipeline,
        query_id="q",
        id=0,
        guarantee=Guarantee.EXACTLY_ONCE,
        offsets={TopicPartition(source, 0): end},
        offsets_before={TopicPartition(source, 0): 1},
    )
    ids = {name: str(info.topic_id) for name, info in client.topics(client.deadline(), [source, target]).items()}
    ids[source] = source_id or ids[source]
    entries = ledger_entries(batch, Ledger(), TopicPartition(target, 0), targets=[target], topic_ids=ids)
    commit_offsets(client, pipeline, entries, deadline=client.deadline())


def test_a_ledger_bounds_the_source(cluster: Cluster, client: WireCluster) -> None:
    for name in ("source", "target", "other"):
        create_topic(cluster, name, partitions=2)
    produce(cluster, "source", 6)
    assert RawTransactions(cluster, "shop", newer=False).init() == 0
    commit(client, "shop", "source", "target", end=4)
    sides = located(client, cluster, "source"), [located(client, cluster, "target")]
    ours, theirs = bound_topics(*sides, pipeline="shop")
    assert ours == Bounds(ranges={0: (1, 4), 1: (0, 0)}, incomplete=(), left_out=2)
    assert theirs == [Bounds(ranges={0: (0, 0), 1: (0, 0)}, incomplete=())]
    with pytest.raises(ConfigError, match="counts nothing of other") as told:
        bound_topics(located(client, cluster, "other"), sides[1], pipeline="shop")
    assert "source" in told.value.you_want
    with pytest.raises(ConfigError, match="counts nothing of source"):
        bound_topics(*sides, pipeline="nobody")


@pytest.mark.parametrize(
    ("guarantee", "side"),
    [(Guarantee.EXACTLY_ONCE, None), (Guarantee.AT_LEAST_ONCE, Place.LEFT), (Guarantee.AT_MOST_ONCE, Place.RIGHT)],
)
def test_only_exactly_once_moves_its_ledger_together_with_its_rows(
    cluster: Cluster, client: WireCluster, guarantee: Guarantee, side: Place | None
) -> None:
    source, target = f"{guarantee}-in", f"{guarantee}-out"
    for name in (source, target):
        create_topic(cluster, name)
    assert RawTransactions(cluster, guarantee, newer=False).init() == 0
    commit(client, guarantee, source, target, end=0)
    left, right = located(client, cluster, source), located(client, cluster, target)
    ours, (theirs,) = bound_topics(left, [right], guarantee, guarantee)
    assert ours is not None
    found = [(one.side, one.gap) for one in (*ours.incomplete, *theirs.incomplete)]
    assert found == ([(side, Gap.LEDGER)] if side else [])


def test_rows_that_were_never_in_a_transaction_may_be_ahead_of_the_ledger(
    cluster: Cluster, client: WireCluster
) -> None:
    for name in ("plain-in", "plain-out"):
        create_topic(cluster, name)
    commit(client, "plain", "plain-in", "plain-out", end=0)
    ours, _ = bound_topics(
        located(client, cluster, "plain-in"), [located(client, cluster, "plain-out")], "plain", Guarantee.EXACTLY_ONCE
    )
    assert ours is not None
    assert [(one.side, one.gap) for one in ours.incomplete] == [(Place.LEFT, Gap.LEDGER)]


def test_a_ledger_that_counts_another_topic_of_this_name_is_refused(cluster: Cluster, client: WireCluster) -> None:
    for name in ("again", "kept"):
        create_topic(cluster, name)
    commit(client, "old", "again", "kept", end=4, source_id=str(uuid4()))
    with pytest.raises(ConfigError, match="deleted and created again"):
        bound_topics(located(client, cluster, "again"), [located(client, cluster, "kept")], pipeline="old")


class Overtaken(WireCluster):
    """A client that a pipeline overtakes: it commits again whenever somebody looks at topics, so many times."""

    def __init__(self, client: WireCluster, source: str, target: str, *, times: int) -> None:
        super().__init__(client.settings)
        self._client, self._names, self._left, self.end = client, (source, target), times, 1

    def topics(self, deadline: Deadline, names: Collection[str] | None = None) -> dict[str, TopicInfo]:
        if self._left:
            self._left -= 1
            self.end += 1
            commit(self._client, "fast", *self._names, end=self.end)
        return super().topics(deadline, names)


@pytest.mark.parametrize("times", [3, 1000])
def test_a_ledger_that_moves_is_read_again_until_it_stands_still(
    cluster: Cluster, client: WireCluster, times: int
) -> None:
    source, target = f"run-{times}", f"trace-{times}"
    for name in (source, target):
        create_topic(cluster, name)
    produce(cluster, source, 9)
    assert RawTransactions(cluster, "fast", newer=False).init() == 0
    commit(client, "fast", source, target, end=1)
    topic, _ = located(client, cluster, target)
    moving = Overtaken(client, source, target, times=times)
    with closing(moving):
        if times > LEDGER_TRIES_MAX:
            with pytest.raises(SemelError, match="moved or was undecided"):
                bound_topics(located(client, cluster, source), [(topic, moving)], pipeline="fast")
            return
        ours, _ = bound_topics(located(client, cluster, source), [(topic, moving)], pipeline="fast")
    assert ours is not None
    assert ours.ranges == {0: (1, 1 + times)}, "what the ledger said last, and not what it said first"


def test_what_the_pipeline_itself_has_under_way_does_not_hide_what_it_committed(
    cluster: Cluster, client: WireCluster
) -> None:
    for name in ("feed", "result"):
        create_topic(cluster, name)
    produce(cluster, "feed", 3)
    produce(cluster, "result", 2)
    commit(client, "busy", "feed", "result", end=2)
    own = RawTransactions(cluster, "busy", newer=False)
    assert [own.init(), own.add("result"), own.send("result", "next micro-batch")] == [0, 0, 0]
    sides = located(client, cluster, "feed"), [located(client, cluster, "result")]
    _, (theirs,) = bound_topics(*sides, pipeline="busy")
    assert theirs == Bounds(ranges={0: (0, 2)}, incomplete=())
    assert bounds_of(client, cluster, "result").incomplete, "without a pipeline nobody knows whose it is"
    # Rows of a stranger's transaction are in the way too, and behind them may stand rows that the pipeline committed.
    assert own.end(own.end_request(commit=False)) == 0
    stranger = RawTransactions(cluster, "stranger", newer=False)
    assert [stranger.init(), stranger.add("result"), stranger.send("result", "x")] == [0, 0, 0]
    _, (theirs,) = bound_topics(*sides, pipeline="busy")
    assert [one.gap for one in theirs.incomplete] == [Gap.OPEN_TRANSACTION]


def test_what_is_not_there_is_named(cluster: Cluster, client: WireCluster) -> None:
    with pytest.raises(ConfigError, match="no topic 'missing'"):
        bounds_of(client, cluster, "missing")
    create_topic(cluster, "narrow")
    with pytest.raises(ConfigError, match="narrow has no partition 7"):
        bounds_of(client, cluster, "narrow?from=7:1")
    with pytest.raises(ConfigError, match="ledger"):
        bound_topics(None, [located(client, cluster, "narrow")], pipeline="shop")
