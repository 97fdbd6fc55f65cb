"""Members that join, leave, crash and come back while topics change, answers are lost and the coordinator restarts.

Keeps: G11 no partition is owned by two members at once, as the members see it; G10 when all is quiet every partition
       is owned, and evenly; G9 a restart changes nothing; G1 a token is answered once (the harness asserts it);
       G5 after silence the group is empty; G6 a refused commit is never visible.
"""

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from semel.broker.groups.consumer.types import (
    EPOCH_LEAVE,
    EPOCH_LEAVE_STATIC,
    ConsumerGroupState,
    ConsumerHeartbeat,
    TopicIdPartition,
)
from semel.broker.groups.types import GroupSettings
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.consumer_harness import (
    FENCED,
    REBALANCE_MS,
    SESSION_MS,
    Client,
    ConsumerHarness,
    topic_id,
)
from tests.unit.broker.groups.harness import GROUP

CLIENTS = st.integers(0, 2)
STATIC = 2
TOPICS = ("t", "u")
SLOW_MS_MAX = REBALANCE_MS - SESSION_MS - 1


@dataclass
class Life:
    """One client; a token is a heartbeat whose answer it has not seen yet.

    `uses` is what it reads right now. It may take a while until that is what it was
    assigned, but not for ever: a client that works too long on its records leaves by itself.
    """

    client: Client
    token: int | None = None
    sent_ms: int = 0
    heard_ms: int = 0
    slow_ms: int = 0
    assigned: frozenset[TopicIdPartition] = field(default_factory=frozenset)
    uses: frozenset[TopicIdPartition] = field(default_factory=frozenset)

    def catch_up(self) -> None:
        """Use what is assigned and nothing else."""
        self.uses = self.client.owned = self.assigned
        self.slow_ms = 0

    def drop(self) -> None:
        """Give everything up and start over."""
        self.assigned = frozenset()
        self.client.epoch, self.token = 0, None
        self.catch_up()


class ConsumerMachine(RuleBasedStateMachine):
    """Appends are durable when `settle` says so; a restart loses those that are not."""

    def __init__(self) -> None:
        """Start with two topics and nobody."""
        super().__init__()
        self.group = ConsumerHarness(GroupSettings(), t=3, u=2)
        self.counts = {"t": 3, "u": 2}
        self.names = iter(f"m{number}" for number in range(10_000))
        self.lives = [Life(self._new(index)) for index in range(STATIC + 1)]
        self.refused: set[int] = set()
        self.offset_next = 0

    def _new(self, index: int) -> Client:
        names = ("t",) if index == 1 else TOPICS
        return self.group.client(next(self.names), *names, instance="static" if index == STATIC else None)

    def _hear(self, life: Life) -> None:
        if life.token is None or life.token not in self.group.answers:
            return
        response = self.group.heartbeat_answer(life.token)
        life.token = None
        if response.error_code in FENCED:
            life.drop()
        elif response.error_code is ErrorCode.NONE:
            life.client.epoch, life.heard_ms = response.member_epoch, life.sent_ms
            life.assigned = life.assigned if response.assignment is None else response.assignment

    # What clients do.

    @rule(quick=st.sets(CLIENTS), rounds=st.integers(1, 3))
    def all_send_heartbeats(self, quick: set[int], rounds: int) -> None:
        """The usual case: everybody sends heartbeats and hears, some catch up at once."""
        for _ in range(rounds):
            for index in range(STATIC + 1):
                self.heartbeat(index, hears=True)
            for index in sorted(quick):
                self.catch_up(index)
            self.no_partition_is_used_twice()

    @rule(index=CLIENTS, hears=st.booleans())
    def heartbeat(self, index: int, hears: bool) -> None:
        life = self.lives[index]
        if life.token is None:
            life.client.owned = life.uses | life.assigned  # what it may take any moment is not given up
            life.token = self.group.ask_heartbeat(life.client.request())
            life.sent_ms = self.group.now_ms
        if hears:
            self._hear(life)

    @rule(index=CLIENTS)
    def catch_up(self, index: int) -> None:
        """It gives up what it must, then takes what is new."""
        self.lives[index].catch_up()

    @rule(index=CLIENTS)
    def lose_the_answer(self, index: int) -> None:
        """The connection breaks; the client will send everything again."""
        self.lives[index].token = None

    @rule(index=CLIENTS)
    def leave(self, index: int) -> None:
        life = self.lives[index]
        if life.client.epoch > 0:
            self.group.ask_heartbeat(_leaving(life.client))
        self.lives[index] = Life(self._new(index))

    @rule(index=CLIENTS)
    def crash(self, index: int) -> None:
        """The process is gone, and with it what it used; another takes its place."""
        self.lives[index] = Life(self._new(index))

    @rule(index=CLIENTS, names=st.sampled_from([("t",), ("u",), TOPICS]))
    def subscribe(self, index: int, names: tuple[str, ...]) -> None:
        self.lives[index].client.names = frozenset(names)

    @rule(index=CLIENTS, ahead=st.integers(-1, 1))
    def commit(self, index: int, ahead: int) -> None:
        """An epoch that is over passes only for a partition that nobody else can have had since."""
        life = self.lives[index]
        self.offset_next += 1
        token = life.client.ask_commit(self.offset_next, "t", 0, epoch=life.client.epoch + ahead)
        if token not in self.group.answers:
            return
        if self.group.committed(token) is not ErrorCode.NONE:
            self.refused.add(self.offset_next)
        elif life.client.epoch + ahead > 0 > ahead:
            others = (other for other in self.lives if other is not life)
            assert not any((topic_id("t"), 0) in other.uses for other in others), "a late commit beside a new owner"

    # What the world does.

    @rule(topic=st.sampled_from(TOPICS))
    def grow(self, topic: str) -> None:
        self.counts[topic] = min(self.counts[topic] + 1, 6)
        self.group.make_topic(topic, self.counts[topic])

    @rule(by_ms=st.sampled_from([100, 5_000, 20_000, SESSION_MS, REBALANCE_MS]))
    def wait(self, by_ms: int) -> None:
        """Time passes; a client that hears nothing for a session stops using what it had, as real ones do."""
        for life in self.lives:
            life.slow_ms += by_ms
            if life.slow_ms > SLOW_MS_MAX:
                life.catch_up()
        self.group.advance(by_ms)
        for life in self.lives:
            if self.group.now_ms - life.heard_ms >= SESSION_MS:
                life.drop()

    @rule(holds=st.booleans())
    def hold(self, holds: bool) -> None:
        if holds:
            self.group.holds_appends = True
        else:
            self.group.release_all()

    @precondition(lambda self: self.group.held)
    @rule()
    def release_one(self) -> None:
        self.group.release()

    @precondition(lambda self: self.group.held)
    @rule()
    def refuse_one(self) -> None:
        self.group.release(ErrorCode.NOT_ENOUGH_REPLICAS)

    @rule()
    def restart(self) -> None:
        self.group.restart()
        for life in self.lives:
            life.token = None

    @rule()
    def replay(self) -> None:
        """A loaded group is the one that runs, once all is durable."""
        self.group.release_all()
        before = self.group.core.describe_consumer_group(GROUP)
        self.group.restart()
        assert self.group.core.describe_consumer_group(GROUP) == before
        for life in self.lives:
            life.token = None

    @rule()
    def quiet_down(self) -> None:
        """When everybody can talk, all is assigned and evenly."""
        self.group.release_all()
        self.group.advance(SESSION_MS + REBALANCE_MS)
        clients = [self.group.client(next(self.names), *TOPICS) for _ in range(3)]
        self.lives = [Life(self._new(index)) for index in range(STATIC + 1)]
        self.group.settle(clients)
        owned = [partition for client in clients for partition in client.owned]
        assert sorted(owned) == sorted((topic_id(name), i) for name, count in self.counts.items() for i in range(count))
        sizes = [len(client.owned) for client in clients]
        assert max(sizes) - min(sizes) <= 1
        assert self.group.core.describe_consumer_group(GROUP).state == ConsumerGroupState.STABLE
        for client in clients:
            client.leave()

    @invariant()
    def no_partition_is_used_twice(self) -> None:
        used = [partition for life in self.lives for partition in life.uses]
        assert len(used) == len(set(used)), "two members use one partition"

    @invariant()
    def no_refused_commit_is_visible(self) -> None:
        assert self.group.fetch().offset_next not in self.refused

    def teardown(self) -> None:
        """In silence everybody is fenced in the end."""
        self.group.release_all()
        self.group.advance(2 * (SESSION_MS + REBALANCE_MS))
        state = self.group.core.describe_consumer_group(GROUP).state
        assert state in ("", ConsumerGroupState.EMPTY)


def _leaving(client: Client) -> ConsumerHeartbeat:
    epoch = EPOCH_LEAVE if client.instance is None else EPOCH_LEAVE_STATIC
    return replace(client.request(), member_epoch=epoch)


TestConsumerGroup = ConsumerMachine.TestCase
TestConsumerGroup.settings = settings(stateful_step_count=40)
