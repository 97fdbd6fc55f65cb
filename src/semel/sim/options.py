"""What a seed decides before anything runs: the shape of the cluster, the clients, and which faults may come.

Why: a run with every kind of fault at once hides what a few kinds do together, so each seed draws its own few.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.broker.log.config import FlushPolicy
from semel.sim.faults import KINDS, LOSES_UNSYNCED
from semel.world.rng import SeededRng

BROKERS = 3
# Few kinds in each run, see above; all of them come up over many seeds.
FAULT_KINDS_MAX = 6
ONE_REPLICA_CHANCE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One seed's draw."""

    seed: int
    partitions: int
    replication_factor: int
    flush: FlushPolicy
    contenders: int
    acks: int
    faults: tuple[str, ...]
    faulty_ms: int
    fault_gap_ms: int
    latency_ms_max: float

    def __str__(self) -> str:
        """As the first lines of a report."""
        partitions = f"{self.partitions} partitions of {self.replication_factor} replicas"
        cluster = f"{BROKERS} brokers, {partitions}, flush {self.flush.value}"
        clients = f"{self.contenders} per transactional id, plain producer with acks={self.acks}"
        return f"{cluster}; {clients}; {self.faulty_ms} ms of: {', '.join(self.faults)}"


def draw_options(seed: int) -> Options:
    """The same for the same seed."""
    rng = SeededRng(seed).fork("options")
    flush = FlushPolicy.EVERY if rng.chance(0.4) else FlushPolicy.OS
    # What was never synced may be gone after a crash, whatever was acknowledged: that is what flush=os means.
    possible = sorted(name for name in KINDS if flush is FlushPolicy.EVERY or name not in LOSES_UNSYNCED)
    return Options(
        seed=seed,
        # Few, so that clients meet in them.
        partitions=rng.integer(1, 3),
        replication_factor=1 if rng.chance(ONE_REPLICA_CHANCE) else BROKERS,
        flush=flush,
        # With two, each is the zombie of the other half of the time.
        contenders=rng.choice([1, 1, 2]),
        # More often -1, since nothing else is judged for loss.
        acks=rng.choice([-1, -1, 1, 0]),
        faults=tuple(_some(rng, possible, rng.integer(2, FAULT_KINDS_MAX))),
        # Longer than sessions and elections take, several times over.
        faulty_ms=rng.integer(8, 15) * 1000,
        fault_gap_ms=rng.choice([300, 800, 1500]),
        # The longer it may take, the more requests overtake each other.
        latency_ms_max=rng.choice([1.0, 2.0, 20.0]),
    )


def _some(rng: SeededRng, names: list[str], count: int) -> list[str]:
    left, chosen = list(names), []
    for _ in range(min(count, len(left))):
        chosen.append(rng.choice(left))
        left.remove(chosen[-1])
    return sorted(chosen)
