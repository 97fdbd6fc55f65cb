"""Topics: which there are, and those that come into being by use: auto-created, or as a coordinator's memory."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from semel.broker.controller.controller import Planning
from semel.broker.metadata.cluster_state import GROUP_TOPIC, TRANSACTION_TOPIC, ClusterState, TopicSet
from semel.broker.runtime.refused import Refused

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def has_partition(state: ClusterState, topic: str, index: int) -> bool:
    """Whether the cluster has this partition."""
    known = state.topics.get(topic)
    return known is not None and 0 <= index < len(known.partitions)


def create_topics_now(broker: Broker, names: Sequence[str]) -> None:
    """Create topics with the broker's defaults; a name that is refused is left out and reported by the caller."""
    settings = broker.settings
    planned: list[TopicSet] = []
    # Only who creates something needs the controller, which may be gone for a while.
    planning = Planning.beside(broker.controller.state) if names else None
    for name in names:
        if name in (GROUP_TOPIC, TRANSACTION_TOPIC):
            create_internal_topic(broker, name)
            continue
        try:
            planned.append(
                broker.controller.plan_topic(
                    name,
                    partitions=settings.number("num.partitions"),
                    replication_factor=settings.number("default.replication.factor"),
                    config={},
                    planning=planning,
                )
            )
        except Refused as refused:
            broker.client_log.write(logging.INFO, "broker %d: %s was not created: %s", broker.id, name, refused.summary)
    if planned:
        broker.controller.commit(planned)


def create_internal_topic(broker: Broker, name: str) -> None:
    """Create a coordinator's topic unless it is there."""
    # A broker that is behind plans it once more, and `plan_topic` refuses that: two
    # topics of one name cannot come to be.
    if name in broker.state.topics:
        return
    prefix = "offsets.topic" if name == GROUP_TOPIC else "transaction.state.log"
    settings = broker.settings
    # The newest record of a key is the whole truth about a group, an offset or a transactional id.
    config = {"cleanup.policy": "compact", "compression.type": "producer"}
    factor = replication_factor(broker, f"{prefix}.replication.factor")
    if name == GROUP_TOPIC:
        config["segment.bytes"] = settings.text("offsets.topic.segment.bytes")
    else:
        # Fewer replicas than the minimum could never be written to.
        config["min.insync.replicas"] = str(min(settings.number("transaction.state.log.min.isr"), factor))
    planned = broker.controller.plan_topic(
        name, partitions=settings.number(f"{prefix}.num.partitions"), replication_factor=factor, config=config
    )
    broker.controller.commit([planned])


def replication_factor(broker: Broker, key: str) -> int:
    """The factor for an internal topic; Apache Kafka's default of three where there are that many brokers."""
    factor = broker.settings.number(key)
    # Asked for by name, the factor holds and creation fails where brokers are missing, as in Apache Kafka.
    return factor if key in broker.settings.given else min(factor, max(1, len(broker.state.nodes)))
