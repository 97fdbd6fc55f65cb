"""Moving partitions to other brokers: new replicas are added, and old ones removed once the new ones are in sync.

Keeps: R5 a reassignment is completed only with in-sync replicas left, and led by one of them.
Sources: KIP-455.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from semel.broker.cluster_state import PartitionState
from semel.broker.elections import elected, in_assignment_order


def is_under_way(place: PartitionState) -> bool:
    """Whether the partition is being moved."""
    return bool(place.adding or place.removing)


def begun(place: PartitionState, target: Sequence[int], alive: Callable[[int], bool]) -> PartitionState:
    """Move the partition to these brokers; one that only drops or reorders replicas may be done at once."""
    settled = cancelled(place, alive)
    kept = tuple(replica for replica in settled.replicas if replica not in target)
    started = replace(
        settled,
        replicas=(*target, *kept),
        adding=tuple(replica for replica in target if replica not in settled.replicas),
        removing=kept,
    )
    return completed(started, alive)


def completed(place: PartitionState, alive: Callable[[int], bool]) -> PartitionState:
    """Drop the old replicas if all new ones are in sync; otherwise the place as it is."""
    target = tuple(replica for replica in place.replicas if replica not in place.removing)
    isr = in_assignment_order(place, [replica for replica in place.isr if replica in target])
    if not is_under_way(place) or not isr or not set(place.adding) <= set(isr):
        return place
    done = replace(place, replicas=target, isr=isr, adding=(), removing=())
    return elected(done, alive, unclean=False)


def cancelled(place: PartitionState, alive: Callable[[int], bool]) -> PartitionState:
    """Go back to the replicas of before, unless they have all fallen behind the new ones."""
    isr = tuple(replica for replica in place.isr if replica not in place.adding)
    if not isr:
        return place
    replicas = tuple(replica for replica in place.replicas if replica not in place.adding)
    back = replace(place, replicas=replicas, isr=isr, adding=(), removing=())
    return elected(back, alive, unclean=False) if place.adding else back
