"""Drawing faults from a seed: which kind, where, and with which settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from semel.errors import ConfigError
from semel.faults.catalogue import FAULTS, make
from semel.faults.fault import Fault, Setting
from semel.world.rng import SeededRng

CONTROLLER = 0
APIS = ("Produce", "Fetch", "InitProducerId", "AddPartitionsToTxn", "TxnOffsetCommit", "EndTxn", "OffsetCommit")
REFUSALS = ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_ENOUGH_REPLICAS")
TIMES_MAX = 3
DELAY_MS_MAX = 3_000
SYNC_MS_MAX = 400
ROOM_BYTES_MAX = 2_000
CLOCK_JUMP_MS_MAX = 3_600_000
DURATION_MS_MIN = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What there is to break: how many brokers, and the topics with their numbers of partitions."""

    brokers: int
    topics: Mapping[str, int]


class Draws:
    """Draws of one seed; the same seed and surroundings give the same draws."""

    def __init__(self, seed: int, surroundings: Surroundings) -> None:
        """Start a stream of its own."""
        self._rng = SeededRng(seed).fork("schedule of faults")
        self._around = surroundings

    def gap_ms(self, mean_ms: float) -> float:
        """Time to the next fault."""
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
        return {"broker": self._rng.integer(1, self._around.brokers)}

    def split(self) -> dict[str, Setting]:
        """Any two parties, the controller among them."""
        source = self._rng.integer(CONTROLLER, self._around.brokers)
        others = [one for one in range(self._around.brokers + 1) if one != source]
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
