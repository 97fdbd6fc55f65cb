"""S032: the coordinator's only copy of what it knows is lost while a transaction is open."""

from semel.drill.damage.brokers import REPLICATED, coordinator_of, lose_disk, restart_all
from semel.drill.damage.records import (
    WAIT_S_MAX,
    Damage,
    commit_transaction,
    new_name,
    new_topic,
    numbered,
    producer,
    read_all,
    tally,
)
from semel.engine.embedded import Cluster
from semel.wire.cluster import CoordinatorKind


def settings(*, followed: bool) -> dict[str, str]:
    """Three copies of the transaction log, or one."""
    weak = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    return REPLICATED | ({} if followed else weak)


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """A new owner ends what the old one left open, unless nobody knows of it: then readers never get past it."""
    del followed  # the brokers' settings are the whole difference
    topic, name = new_topic(cluster, "outcome", replicas=3), new_name("outcome")
    killed = producer(cluster, {"transactional.id": name})
    killed.init_transactions(WAIT_S_MAX)
    killed.begin_transaction()
    killed.produce(topic, "left open", partition=0)
    killed.flush(WAIT_S_MAX)
    # With one copy its disk is the only place that says what is open.
    coordinator = coordinator_of(cluster, CoordinatorKind.TRANSACTION, name)
    fired = lose_disk(cluster, coordinator)
    restart_all(cluster, coordinator)
    # The new owner's records stand behind what was left open, where readers of committed records do not come.
    commit_transaction(cluster, name, [(topic, 0, value) for value in numbered()])
    return tally(numbered(), read_all(cluster, topic), fired=fired)
