"""Moving partitions to other brokers: new replicas are added, and old ones removed once the new ones are in sync.

Keeps: R5 a reassignment is completed only with in-sync replicas left, and led by one of them.
Sources: KIP-455.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from semel.broker.controller.elections import elected, in_assignment_order
from semel.broker.metadata.cluster_state import PartitionState


def is_under_way(partition: PartitionState) -> bool:
    """Whether the partition is being moved."""
    return bool(partition.adding or partition.removing)


def started(partition: PartitionState, target: Sequence[int], alive: Callable[[int], bool]) -> PartitionState:
    """Move the partition to these brokers; one that only drops or reorders replicas may be done at once."""
    # A move that is under way is given up first: the new one is planned from the replicas before it.
    settled = cancelled(partition, alive)
    kept = tuple(replica for replica in settled.replicas if replica not in target)
    moving = replace(
        settled,
        # The new ones first: the first replica is the preferred leader.
        replicas=(*target, *kept),
        adding=tuple(replica for replica in target if replica not in settled.replicas),
        removing=kept,
    )
    return completed(moving, alive)


def completed(partition: PartitionState, alive: Callable[[int], bool]) -> PartitionState:
    """Drop the old replicas if all new ones are in sync; otherwise leave the partition as it is."""
    target = tuple(replica for replica in partition.replicas if replica not in partition.removing)
    isr = in_assignment_order(partition, [replica for replica in partition.isr if replica in target])
    # Not before: with fewer the move would lower the number of copies.
    if not is_under_way(partition) or not isr or not set(partition.adding) <= set(isr):
        return partition
    # Removed replicas delete their logs when they hear of this, so it must come after the new ones have everything.
    done = replace(partition, replicas=target, isr=isr, adding=(), removing=())
    return elected(done, alive, unclean=False)


def cancelled(partition: PartitionState, alive: Callable[[int], bool]) -> PartitionState:
    """Go back to the replicas from before the move, unless they have all fallen behind the new ones."""
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding)
    if not isr:
        return partition
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding)
    back = replace(partition, replicas=replicas, isr=isr, adding=(), removing=())
    # A leader can only have been lost with the replicas that were being added.
    return elected(back, alive, unclean=False) if partition.adding else back
