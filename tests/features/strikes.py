"""Every fault of `semel.faults`, aimed at whoever matters to a copying program: leaders, coordinators, controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import semel
from semel.broker.coordinators import coordinator_partition
from semel.faults import (
    ClockJump,
    CutResponse,
    DelayMessage,
    Fault,
    FullDisk,
    KillBroker,
    KillController,
    LoseRequest,
    LoseResponse,
    LostSync,
    MoveLeader,
    PauseBroker,
    RefuseRequest,
    RestartBroker,
    SlowDisk,
    SplitNetwork,
    TornWrite,
)
from semel.faults.message_fault import MessageFault

OURS = "semel"  # the client.id of semel's classes: whoever looks on is spared
CONTROLLER = 0
BROKERS = (1, 2, 3)
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
# What a program asks again and again, and what it asks once when it starts.
WORKING = ("Produce", "Fetch", "OffsetCommit", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
STARTING = ("Metadata", "FindCoordinator", "InitProducerId", "JoinGroup", "SyncGroup", "OffsetFetch")
REFUSALS = {"Produce": "NOT_LEADER_OR_FOLLOWER", "Fetch": "NOT_LEADER_OR_FOLLOWER", "Metadata": "LEADER_NOT_AVAILABLE"}
# These wait for somebody to meet them; every other one is felt when it begins.
WAITING = (MessageFault, SplitNetwork, SlowDisk, FullDisk)
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
LATE_MS = 1_800  # later than a client of `surviving` waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A running cluster, and what is copied on it."""

    cluster: semel.Cluster
    source: str
    target: str
    name: str  # of the group and the transactional id
    apis: frozenset[str]  # what the clients ask

    def leader(self, topic: str, partition: int = 0) -> int:
        """Who leads it now."""
        return self.cluster.core.state.topics[topic].partitions[partition].leader

    def partition(self, internal: str) -> int:
        """Which partition of an internal topic knows this group or transactional id."""
        return coordinator_partition(self.name, len(self.cluster.core.state.topics[internal].partitions))

    def coordinator(self, internal: str) -> int:
        """Who coordinates."""
        return self.leader(internal, self.partition(internal))

    def each(self, apis: Sequence[str], make: Callable[[str], Fault]) -> list[Fault]:
        """One for each of these that the clients ask."""
        return [make(api) for api in apis if api in self.apis]


Whom = Callable[[Scene], int]
Aim = Callable[[Scene], Sequence[Fault]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """Faults that begin together, how long they last, and what clients must ask for to feel them."""

    name: str
    aim: Aim
    needs: str = ""
    hold_ms: float = 2_000
    flush: str = "os"
    at_start: bool = False  # strikes before the first client is there

    def __str__(self) -> str:
        return self.name


def target_leader(scene: Scene) -> int:
    """Who takes the results."""
    return scene.leader(scene.target)


def source_leader(scene: Scene) -> int:
    """Who gives the records."""
    return scene.leader(scene.source)


def group_coordinator(scene: Scene) -> int:
    """Who keeps the offsets."""
    return scene.coordinator(GROUPS)


def transaction_coordinator(scene: Scene) -> int:
    """Who commits."""
    return scene.coordinator(TRANSACTIONS)


# Who has which part, and what clients ask of it.
ROLES: dict[str, tuple[Whom, str]] = {
    "target's leader": (target_leader, "Produce"),
    "source's leader": (source_leader, "Fetch"),
    "group coordinator": (group_coordinator, "JoinGroup"),
    "transaction coordinator": (transaction_coordinator, "EndTxn"),
}


def aimed(kind: Callable[..., Fault], whom: Whom, **settings: object) -> Aim:
    """One fault, at whoever has that part when it strikes."""
    return lambda scene: [kind(broker=whom(scene), **settings)]


def cut_off(whom: Whom, others: Sequence[int] = (CONTROLLER, *BROKERS)) -> Aim:
    """Clients reach it, these others do not: it believes that it still leads."""

    def aim(scene: Scene) -> list[Fault]:
        lonely = whom(scene)
        return [SplitNetwork(source=lonely, target=other) for other in others if other != lonely]

    return aim


def moved(internal: str) -> Aim:
    """Another broker takes the coordinator's place."""
    return lambda scene: [MoveLeader(topic=internal, partition=scene.partition(internal))]


def without_controller(scene: Scene) -> list[Fault]:
    """The leader dies when nobody can name another."""
    return [PauseBroker(broker=CONTROLLER), KillBroker(broker=target_leader(scene))]


def with_controller(scene: Scene) -> list[Fault]:
    """Both die."""
    return [KillController(), KillBroker(broker=target_leader(scene))]


def message(name: str, make: Callable[[str], Fault]) -> list[Strike]:
    """One request of each kind: of those that a working program asks, and of those that a starting one does."""
    return [
        Strike(name=f"{name}, at work", aim=lambda scene: scene.each(WORKING, make), hold_ms=MINUTE_MS),
        Strike(
            name=f"{name}, at the start", aim=lambda scene: scene.each(STARTING, make), hold_ms=MINUTE_MS, at_start=True
        ),
    ]


ON_BROKERS = [
    strike
    for role, (whom, api) in ROLES.items()
    for strike in (
        Strike(name=f"{role} killed", aim=aimed(KillBroker, whom), needs=api),
        Strike(name=f"{role} paused", aim=aimed(PauseBroker, whom), needs=api),
        Strike(name=f"{role} cut off", aim=cut_off(whom), needs=api),
    )
]
ON_PLACES = [
    Strike(name="target's leader moved", aim=lambda scene: [MoveLeader(topic=scene.target)], needs="Produce"),
    Strike(name="source's leader moved", aim=lambda scene: [MoveLeader(topic=scene.source)], needs="Fetch"),
    Strike(name="group coordinator moved", aim=moved(GROUPS), needs="JoinGroup"),
    Strike(name="transaction coordinator moved", aim=moved(TRANSACTIONS), needs="EndTxn"),
    Strike(name="target's leader restarted", aim=aimed(RestartBroker, target_leader), needs="Produce"),
    Strike(name="target's leader without controller", aim=cut_off(target_leader, (CONTROLLER,)), needs="Produce"),
    Strike(name="target's leader without followers", aim=cut_off(target_leader, BROKERS), needs="Produce"),
    Strike(name="controller killed", aim=lambda _: [KillController()]),
    Strike(name="controller and target's leader killed", aim=with_controller, needs="Produce"),
    Strike(name="controller paused, target's leader killed", aim=without_controller, needs="Produce"),
]
ON_MACHINES = [
    Strike(name="disk full", aim=aimed(FullDisk, target_leader), needs="Produce"),
    Strike(name="disk slow", aim=aimed(SlowDisk, target_leader, sync_ms=100), needs="Produce", flush="every"),
    Strike(name="unsynced bytes lost", aim=aimed(LostSync, target_leader), needs="Produce"),
    Strike(name="write torn", aim=aimed(TornWrite, target_leader), needs="Produce"),
    Strike(name="clock an hour ahead", aim=aimed(ClockJump, transaction_coordinator, ms=HOUR_MS), needs="EndTxn"),
    Strike(name="clock an hour behind", aim=aimed(ClockJump, target_leader, ms=-HOUR_MS), needs="Produce"),
]
ON_MESSAGES = [
    *message("requests lost", lambda api: LoseRequest(api=api, client=OURS)),
    *message("requests lost in silence", lambda api: LoseRequest(api=api, client=OURS, silent=True)),
    *message("answers lost", lambda api: LoseResponse(api=api, client=OURS)),
    *message("answers lost in silence", lambda api: LoseResponse(api=api, client=OURS, silent=True)),
    *message("answers cut", lambda api: CutResponse(api=api, client=OURS)),
    *message("answers late", lambda api: DelayMessage(api=api, client=OURS, ms=LATE_MS, response=True)),
    *message("requests late", lambda api: DelayMessage(api=api, client=OURS, ms=LATE_MS)),
    *message(
        "requests refused", lambda api: RefuseRequest(api=api, client=OURS, code=REFUSALS.get(api, "NOT_COORDINATOR"))
    ),
]
STRIKES = {strike.name: strike for strike in (*ON_BROKERS, *ON_PLACES, *ON_MACHINES, *ON_MESSAGES)}
