"""S032 to S035, S040 to S042: live brokers, once with weak settings and once with strict ones."""

import pytest

from semel.check.facts import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from semel.drill.damage.records import new_topic
from semel.engine.embedded import Cluster
from tests.check.looking import broken, client, held, look, wired
from tests.features.reading import wire_to_coordinator

RULES = ["S032", "S033", "S034", "S035", "S040", "S041", "S042"]
DAY_MS = 86_400_000


@pytest.mark.parametrize("rule", RULES)
def test_brokers(weak: Cluster, strict: Cluster, rule: str) -> None:
    broken(look(weak.bootstrap), rule)
    held(look(strict.bootstrap), rule)


def test_every_broker_is_looked_at(weak: Cluster) -> None:
    assert len([one for one in look(weak.bootstrap) if one.rule == "S034"]) == 3


def test_offsets_are_kept_as_long_as_records(strict: Cluster) -> None:
    week, month = (new_topic(strict, "kept", config={"retention.ms": str(days * DAY_MS)}) for days in (7, 30))
    held(look(strict.bootstrap, week), "S035")
    broken(look(strict.bootstrap, month), "S035")


def test_a_patient_producer_needs_a_longer_memory(strict: Cluster) -> None:
    patient = client({"acks": "all", "delivery.timeout.ms": str(DAY_MS)})
    broken(look(strict.bootstrap, clients=[patient]), "S042")


def test_internal_topics_are_judged_as_they_are_once_they_exist() -> None:
    with Cluster(brokers=3, config={"transaction.state.log.replication.factor": "1"}) as cluster:
        assert "not created yet" in broken(look(cluster.bootstrap), "S032").found
        wire_to_coordinator(cluster, "anything").close()
        assert "not created yet" not in broken(look(cluster.bootstrap), "S032").found


def test_looking_creates_no_topic() -> None:
    with Cluster(brokers=1) as cluster:
        look(cluster.bootstrap, groups=["g"], transactional_ids=["t"])
        with wired(cluster.bootstrap) as seen:
            assert not {OFFSETS_TOPIC, TRANSACTIONS_TOPIC} & seen.topics(seen.deadline()).keys()
