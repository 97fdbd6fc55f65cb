"""S006: no transactional id, and the producer is killed before it knows what arrived."""

from typing import Any

from semel.broker.runtime.intercept import After, DropResponse
from semel.drill.damage.records import (
    WAIT_S_MAX,
    Damage,
    new_name,
    new_topic,
    numbered,
    producer,
    read_all,
    tally,
    wait_until,
)
from semel.engine.embedded import Cluster


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """The first producer's records arrive and it never learns of it; the second sends them again."""
    topic, first, second = new_topic(cluster, "owner"), new_name("first"), new_name("second")
    owned: dict[str, object] = {"transactional.id": new_name("owner")} if followed else {"enable.idempotence": True}
    hook = cluster.intercept(
        "Produce", DropResponse(then=After.SILENCE), times=None, where=lambda seen: seen.client_id == first
    )
    killed = _begun(cluster, {"client.id": first, **owned}, transactional=followed)
    _send(killed, topic)
    wait_until(lambda: len(read_all(cluster, topic, isolation="read_uncommitted")) == len(numbered()), "it arrived")
    # As its process would: what it has not sent is gone, and nothing is aborted.
    killed.purge()
    client = _begun(cluster, {"client.id": second, **owned}, transactional=followed)
    _send(client, topic)
    if followed:
        client.commit_transaction(WAIT_S_MAX)
    client.flush(WAIT_S_MAX)
    cluster.disarm(hook)
    return tally(numbered(), read_all(cluster, topic), fired=hook.fired)


def _begun(cluster: Cluster, settings: dict[str, object], *, transactional: bool) -> Any:
    client = producer(cluster, settings)
    if transactional:
        client.init_transactions(WAIT_S_MAX)
        client.begin_transaction()
    return client


def _send(client: Any, topic: str) -> None:
    for value in numbered():
        client.produce(topic, value, partition=0)
    client.poll(0)
