"""Output partitions, numbered through all topics."""

import pickle

import pytest

from semel.errors import ConfigError
from semel.sinks.kafka.targets import Targets
from semel.wire.topology import TopicPartition

TARGETS = Targets.of({"b": 2, "a": 3})


def test_numbers_run_through_the_topics_in_the_order_given() -> None:
    wanted = [("b", 0), ("b", 1), ("a", 0), ("a", 1), ("a", 2)]
    assert [(one.topic, one.partition) for one in TARGETS] == wanted
    assert [TARGETS.partition(number) for number in range(TARGETS.total)] == list(TARGETS)
    assert [TARGETS.first_of(index) for index in (0, 1)] == [0, 2]


def test_totals() -> None:
    assert (TARGETS.total, TARGETS.fewest) == (5, 2)
    assert TARGETS.home == TopicPartition("b", 0)


def test_it_travels_to_tasks() -> None:
    assert pickle.loads(pickle.dumps(TARGETS)) == TARGETS


def test_no_topic() -> None:
    with pytest.raises(ConfigError, match="at least one output topic"):
        Targets.of({})
