"""Every fault of `semel.faults`, aimed at the broker that matters to a program: leaders, coordinators, controller.

A fault needs a broker's number, and who leads or coordinates is known only when it strikes. So a strike is a name and a
function that makes the faults at that moment; a `RunningStrike` is one that has begun, and says whether it was felt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from semel.drill.damage.records import wait_until
from semel.engine.embedded import Cluster
from semel.faults import (
    ClockJump,
    CutResponse,
    DelayMessage,
    Entry,
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
    Schedule,
    SlowDisk,
    SplitNetwork,
    TornWrite,
    played,
)
from semel.faults.injection import Playing
from semel.faults.on_messages import MessageFault
from semel.protocol.coordinator_partition import coordinator_partition

OURS = "semel"  # the client.id of semel's classes, which only look on and are spared
CONTROLLER = 0
BROKERS = (1, 2, 3)
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
# What a program asks again and again, and what it asks once when it starts.
WORKING = ("Produce", "Fetch", "OffsetCommit", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
STARTING = ("Metadata", "FindCoordinator", "InitProducerId", "JoinGroup", "SyncGroup", "OffsetFetch")
REFUSALS = {"Produce": "NOT_LEADER_OR_FOLLOWER", "Fetch": "NOT_LEADER_OR_FOLLOWER", "Metadata": "LEADER_NOT_AVAILABLE"}
# These wait for somebody to meet them; every other one is felt when it begins.
WAITING = (MessageFault, SplitNetwork, SlowDisk, FullDisk)


def is_met_alone(fault: Fault) -> bool:
    """Whether the client's own threads run into it: they fetch ahead, and a quick program may end before they do."""
    return isinstance(fault, MessageFault) and fault.api == "Fetch"


HOUR_MS, MINUTE_MS = 3_600_000, 60_000
MENDED_S_MAX = 60.0
LATE_MS = 1_800  # later than a client of `programs` waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A running cluster, and what is copied on it."""

    cluster: Cluster
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
    kinds: tuple[str, ...]  # the names of its faults, which `semel drill --fault` knows
    needs: str = ""
    hold_ms: float = 2_000
    flush: str = "os"
    at_start: bool = False  # strikes before the first client is there

    def __str__(self) -> str:
        """Write as reports do."""
        return self.name


@dataclass(slots=True, kw_only=True)
class RunningStrike:
    """The faults of one strike, which end by themselves or with the stack."""

    strike: Strike
    scene: Scene
    stack: ExitStack
    faults: list[Fault] = field(default_factory=list)
    playing: Playing | None = None

    def begin(self) -> None:
        """Begin them all."""
        self.faults += self.strike.aim(self.scene)
        entries = [Entry(at_ms=0, fault=fault, duration_ms=self.strike.hold_ms) for fault in self.faults]
        # On the stack, so that an error of the program mends it as well.
        self.playing = self.stack.enter_context(played(self.scene.cluster, Schedule(entries=entries)))
        at_once = [fault for fault in self.faults if not isinstance(fault, WAITING) or is_met_alone(fault)]
        wait_until(lambda: all(fault.fired for fault in at_once), f"the fault has begun: {self}")

    def wait_mended(self) -> None:
        """Wait until brokers are started again, so that what comes next is not counted against the fault."""
        if self.playing is not None and self.strike.hold_ms < MINUTE_MS:
            self.playing.wait(MENDED_S_MAX)

    @property
    def is_felt(self) -> bool:
        """Whether every one of them was."""
        return bool(self.faults) and all(fault.fired for fault in self.faults)

    def __str__(self) -> str:
        """Each with how often it was felt."""
        return ", ".join(f"{fault} fired {fault.fired} times" for fault in self.faults)


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
    """One fault, at the broker that has that part when it strikes."""
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
    kinds = (make(WORKING[0]).name,)
    return [
        Strike(name=f"{name}, at work", aim=lambda scene: scene.each(WORKING, make), kinds=kinds, hold_ms=MINUTE_MS),
        Strike(
            name=f"{name}, at the start",
            aim=lambda scene: scene.each(STARTING, make),
            kinds=kinds,
            hold_ms=MINUTE_MS,
            at_start=True,
        ),
    ]


KILL, PAUSE, SPLIT, MOVE = (kind.name for kind in (KillBroker, PauseBroker, SplitNetwork, MoveLeader))
ON_BROKERS = [
    strike
    for role, (whom, api) in ROLES.items()
    for strike in (
        Strike(name=f"{role} killed", aim=aimed(KillBroker, whom), kinds=(KILL,), needs=api),
        Strike(name=f"{role} paused", aim=aimed(PauseBroker, whom), kinds=(PAUSE,), needs=api),
        Strike(name=f"{role} cut off", aim=cut_off(whom), kinds=(SPLIT,), needs=api),
    )
]


def _on_leader(name: str, aim: Aim, *kinds: str) -> Strike:
    """What producers alone notice."""
    return Strike(name=name, aim=aim, kinds=kinds, needs="Produce")


ON_PLACES = [
    _on_leader("target's leader moved", lambda scene: [MoveLeader(topic=scene.target)], MOVE),
    Strike(
        name="source's leader moved", aim=lambda scene: [MoveLeader(topic=scene.source)], kinds=(MOVE,), needs="Fetch"
    ),
    Strike(name="group coordinator moved", aim=moved(GROUPS), kinds=(MOVE,), needs="JoinGroup"),
    Strike(name="transaction coordinator moved", aim=moved(TRANSACTIONS), kinds=(MOVE,), needs="EndTxn"),
    _on_leader("target's leader restarted", aimed(RestartBroker, target_leader), RestartBroker.name),
    _on_leader("target's leader without controller", cut_off(target_leader, (CONTROLLER,)), SPLIT),
    _on_leader("target's leader without followers", cut_off(target_leader, BROKERS), SPLIT),
    Strike(name="controller killed", aim=lambda _: [KillController()], kinds=(KillController.name,)),
    _on_leader("controller and target's leader killed", with_controller, KillController.name, KILL),
    _on_leader("controller paused, target's leader killed", without_controller, PAUSE, KILL),
]
ON_MACHINES = [
    _on_leader("disk full", aimed(FullDisk, target_leader), FullDisk.name),
    Strike(
        name="disk slow",
        aim=aimed(SlowDisk, target_leader, sync_ms=100),
        kinds=(SlowDisk.name,),
        needs="Produce",
        flush="every",
    ),
    _on_leader("unsynced bytes lost", aimed(LostSync, target_leader), LostSync.name),
    _on_leader("write torn", aimed(TornWrite, target_leader), TornWrite.name),
    Strike(
        name="clock an hour ahead",
        aim=aimed(ClockJump, transaction_coordinator, ms=HOUR_MS),
        kinds=(ClockJump.name,),
        needs="EndTxn",
    ),
    _on_leader("clock an hour behind", aimed(ClockJump, target_leader, ms=-HOUR_MS), ClockJump.name),
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
