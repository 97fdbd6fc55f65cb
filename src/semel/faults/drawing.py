"""Drawing faults from a seed: which kind, where, and with which settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from semel.broker.runtime.links import CONTROLLER, CONTROLLER_BESIDE_BROKER_0
from semel.errors import ConfigError
from semel.faults.catalogue import FAULTS, make
from semel.faults.fault import Fault, Setting
from semel.world.rng import SeededRng

# What delivery depends on. Others would seldom be under way when a fault strikes.
APIS = ("Produce", "Fetch", "InitProducerId", "AddPartitionsToTxn", "TxnOffsetCommit", "EndTxn", "OffsetCommit")
# Errors that a client answers by asking again; one that ends it would end the run.
REFUSALS = ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_ENOUGH_REPLICAS")
# Fewer than clients try by themselves, so that a run goes on.
TIMES_MAX = 3
DELAY_MS_MAX = 3_000
SYNC_MS_MAX = 400
ROOM_BYTES_MAX = 2_000
# Longer than transactions and sessions last, and shorter than retention.
CLOCK_JUMP_MS_MAX = 3_600_000
# Shorter than that, hardly a request would meet it.
DURATION_MS_MIN = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """What there is to break: how many brokers, and the topics with their numbers of partitions."""

    brokers: int
    topics: Mapping[str, int]
    first_broker_id: int = 1

    @property
    def parties(self) -> list[int]:
        """The numbers of the controller and of the brokers."""
        ids = range(self.first_broker_id, self.first_broker_id + self.brokers)
        return [CONTROLLER_BESIDE_BROKER_0 if CONTROLLER in ids else CONTROLLER, *ids]


class Draws:
    """Draws of one seed; the same seed and shape give the same draws."""

    def __init__(self, seed: int, shape: ClusterShape) -> None:
        """Start a stream of its own."""
        # A stream by name: what else a drill draws from the same seed does not move the faults.
        self._rng = SeededRng(seed).fork("schedule of faults")
        self._around = shape

    def gap_ms(self, mean_ms: float) -> float:
        """Time to the next fault."""
        # Rounded, so that a schedule that is written and read again is the same.
        return round(self._rng.uniform(mean_ms / 2, mean_ms * 3 / 2), 3)

    def duration_ms(self, mean_ms: float, left_ms: float) -> float:
        """How long a fault lasts; it ends before the schedule does."""
        return round(min(self._rng.uniform(DURATION_MS_MIN, max(mean_ms * 2, DURATION_MS_MIN)), left_ms), 3)

    def fault(self, kinds: Sequence[str]) -> Fault:
        """A fault of one of these kinds."""
        if unknown := [kind for kind in kinds if kind not in FAULTS] or not kinds:
            raise ConfigError(f"no such faults: {unknown}", you_want=", ".join(FAULTS))
        kind = self._rng.choice(kinds)
        return make(kind, _SETTINGS[kind](self))

    def broker(self) -> dict[str, Setting]:
        """Any broker."""
        return {"broker": self._around.parties[self._rng.integer(1, self._around.brokers)]}

    def split(self) -> dict[str, Setting]:
        """Any two parties, the controller among them."""
        source = self._around.parties[self._rng.integer(0, self._around.brokers)]
        # Never itself: a party cannot be cut off from itself.
        others = [one for one in self._around.parties if one != source]
        return {"source": source, "target": self._rng.choice(others), "one_way": self._rng.chance(0.5)}

    def partition(self) -> dict[str, Setting]:
        """Any partition."""
        if not self._around.topics:
            raise ConfigError("there are no topics whose leaders could move")
        topic = self._rng.choice(sorted(self._around.topics))
        return {"topic": topic, "partition": self._rng.integer(0, self._around.topics[topic] - 1)}

    def message(self) -> dict[str, Setting]:
        """A few requests of any API that matters for delivery."""
        return {"api": self._rng.choice(APIS), "times": self._rng.integer(1, TIMES_MAX)}

    def number(self, name: str, low: int, high: int) -> dict[str, Setting]:
        """One setting between the two."""
        return {name: self._rng.integer(low, high)}

    def flag(self, name: str) -> dict[str, Setting]:
        """One setting, on or off."""
        return {name: self._rng.chance(0.5)}

    def refusal(self) -> dict[str, Setting]:
        """An error that clients know how to take."""
        return {"code": self._rng.choice(REFUSALS)}


_SETTINGS: Mapping[str, Callable[[Draws], dict[str, Setting]]] = {
    "kill-broker": Draws.broker,
    "restart-broker": Draws.broker,
    "pause-broker": Draws.broker,
    "split-network": Draws.split,
    "move-leader": Draws.partition,
    "kill-controller": lambda _: {},
    "slow-disk": lambda draws: draws.broker() | draws.number("sync_ms", 20, SYNC_MS_MAX),
    "full-disk": lambda draws: draws.broker() | draws.number("room_bytes", 0, ROOM_BYTES_MAX),
    "torn-write": Draws.broker,
    "lost-sync": Draws.broker,
    "clock-jump": lambda draws: draws.broker() | draws.number("ms", -CLOCK_JUMP_MS_MAX, CLOCK_JUMP_MS_MAX),
    "lose-request": lambda draws: draws.message() | draws.flag("silent"),
    "lose-response": lambda draws: draws.message() | draws.flag("silent"),
    "delay-message": lambda draws: draws.message() | draws.number("ms", 10, DELAY_MS_MAX) | draws.flag("response"),
    "refuse-request": lambda draws: draws.message() | draws.refusal(),
    "cut-response": lambda draws: draws.message() | draws.number("after_bytes", 0, 20),
}
