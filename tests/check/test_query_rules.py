"""S013 to S019, S028, S031, S036: options of Spark queries, each once wrong and once right."""

import pytest

from semel.check.rule import Finding
from semel.drill.damage.records import commit_transaction, consumer, new_name, new_topic, numbered
from semel.engine.embedded import Cluster
from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.sinks.kafka.sink import TRANSACTION_TIMEOUT_MS
from tests.check.looking import broken, client, held, look, query, unknown
from tests.support.waiting import eventually

Options = dict[str, str]
CASES: list[tuple[str, Options, Options]] = [
    ("S013", {}, {"checkpointLocation": "s3://bucket/checkpoint"}),
    ("S013", {"checkpointLocation": "file:///tmp/checkpoint"}, {"sink.format": "semel", "startingOffsets": "ledger"}),
    ("S014", {"sink.format": "kafka"}, {"sink.format": "semel", "pipeline": "totals"}),
    ("S014", {"sink.format": "semel"}, {"sink.format": "delta"}),
    ("S015", {"failOnDataLoss": "false"}, {}),
    ("S016", {}, {"kafka.isolation.level": "read_committed"}),
    ("S016", {"source.format": "semel", "kafka.isolation.level": "read_uncommitted"}, {"source.format": "semel"}),
    ("S017", {}, {"startingOffsets": "earliest"}),
    ("S017", {"startingOffsets": "latest"}, {"startingTimestamp": "1700000000000"}),
    ("S019", {"sink.format": "semel"}, {"sink.format": "semel", "maxOffsetsPerTrigger": "100000"}),
    ("S031", {"sink.format": "semel", "transaction_timeout_ms": "600001"}, {"sink.format": "semel"}),
]


@pytest.mark.parametrize(("rule", "wrong", "right"), CASES, ids=lambda value: str(value)[:40])
def test_a_query_option(weak: Cluster, rule: str, wrong: Options, right: Options) -> None:
    broken(look(weak.bootstrap, queries=[query(wrong)]), rule)
    held(look(weak.bootstrap, queries=[query(right)]), rule)


def test_two_queries_share_a_pipeline_or_a_checkpoint(weak: Cluster) -> None:
    first = query({"pipeline": "totals", "checkpointLocation": "s3://one"}, "first")
    same_name = query({"pipeline": "totals", "checkpointLocation": "s3://two"}, "second")
    same_folder = query({"pipeline": "others", "checkpointLocation": "s3://one/"}, "second")
    other = query({"pipeline": "others", "checkpointLocation": "s3://two"}, "second")
    assert "second" in broken(look(weak.bootstrap, queries=[first, same_name]), "S018").found
    broken(look(weak.bootstrap, queries=[first, same_folder]), "S018")
    held(look(weak.bootstrap, queries=[first, other]), "S018")


def test_a_query_that_assigns_some_partitions(weak: Cluster) -> None:
    topic = new_topic(weak, "assigned", partitions=3)
    some, every = (query({"assign": f'{{"{topic}": {numbers}}}'}) for numbers in ([0, 2], [0, 1, 2]))
    assert broken(look(weak.bootstrap, topic, queries=[some]), "S028").found == f"not read: {topic}-1"
    held(look(weak.bootstrap, topic, queries=[every]), "S028")
    unknown(look(weak.bootstrap, queries=[some]), "S028")


def test_a_query_that_starts_in_the_middle_of_a_transaction(weak: Cluster) -> None:
    topic = new_topic(weak, "middle")
    for _ in range(2):
        commit_transaction(weak, "middle", [(topic, 0, value) for value in numbered(3)])

    def starts(offset: int) -> list[Finding]:
        return look(weak.bootstrap, queries=[query({"startingOffsets": f'{{"{topic}": {{"0": {offset}}}}}'})])

    for offset, first in ((1, 0), (3, 0), (5, 4)):
        assert f"since offset {first}" in broken(starts(offset), "S045").found
    held(starts(4), "S045")  # behind the marker of the first
    held(starts(8), "S045")
    unknown(starts(100), "S045")
    assert "S045" not in {one.rule for one in starts(0)}
    unknown(look(weak.bootstrap, queries=[query({"startingTimestamp": "1700000000000"})]), "S045")
    with pytest.raises(ConfigError, match="not JSON"):
        look(weak.bootstrap, queries=[query({"startingOffsets": "{nonsense"})])


def test_a_sink_that_is_not_named_cannot_be_judged(weak: Cluster) -> None:
    unknown(look(weak.bootstrap, queries=[query({"subscribe": "orders"})]), "S014")


def test_a_client_asks_for_longer_transactions_than_the_brokers_allow(weak: Cluster) -> None:
    def producer(limit_ms: int) -> dict[str, object]:
        return {"transactional.id": "t", "transaction.timeout.ms": limit_ms, "delivery.timeout.ms": 1000}

    broken(look(weak.bootstrap, clients=[client(producer(600_001))]), "S031")
    held(look(weak.bootstrap, clients=[client(producer(600_000))]), "S031")


def test_the_sinks_own_timeout_is_the_one_that_is_checked(weak: Cluster) -> None:
    finding = held(look(weak.bootstrap, queries=[query({"sink.format": "semel"})]), "S031")
    assert str(TRANSACTION_TIMEOUT_MS) in finding.found


def test_somebody_is_a_member_of_the_ledgers_group(weak: Cluster) -> None:
    topic, pipeline = new_topic(weak, "ledger"), new_name("pipeline")
    member = consumer(weak, pipeline)
    member.subscribe([topic])
    options = query({"sink.format": "semel", "pipeline": pipeline})
    eventually(lambda: (member.poll(0.05), member.assignment())[1], what="the member joined")
    broken(look(weak.bootstrap, guarantee=Guarantee.AT_LEAST_ONCE, queries=[options]), "S036")
    member.close()
    held(look(weak.bootstrap, guarantee=Guarantee.AT_LEAST_ONCE, queries=[options]), "S036")
