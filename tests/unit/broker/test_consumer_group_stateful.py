"""Members that join, leave, crash and come back while topics change, answers are lost and the coordinator restarts.

Keeps: G11 no partition is owned by two members at once, as the members see it; G10 when all is quiet every partition
       is owned, and evenly; G9 a restart changes nothing; G1 a token is answered once (the harness asserts it);
       G5 after silence the group is empty; G6 a refused commit is never visible.
"""

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from semel.broker.consumer_group_types import (
    EPOCH_LEAVE,
    EPOCH_LEAVE_STATIC,
    Beat,
    BeatResponse,
    ConsumerGroupState,
    TopicPartition,
)
from semel.broker.group_types import GroupSettings
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.consumer_harness import FENCED, REBALANCE_MS, SESSION_MS, Client, ConsumerHarness, topic_id
from tests.unit.broker.group_harness import GROUP

CLIENTS = st.integers(0, 4)
STATIC = 4
TOPICS = ("t", "u")


@dataclass
class Life:
    """One client; a token is a heartbeat whose answer it has not seen yet. `uses` is what it reads right now."""

    client: Client
    token: int | None = None
    heard_ms: int = 0
    uses: frozenset[TopicPartition] = field(default_factory=frozenset)


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
        names = ("t",) if index == 3 else TOPICS
        return self.group.client(next(self.names), *names, instance="static" if index == STATIC else None)

    def _hear(self, life: Life) -> None:
        """Act on an answer as a client does: what is no longer assigned is no longer used."""
        if life.token is None or life.token not in self.group.answers:
            return
        response = self.group.beaten(life.token)
        life.token = None
        self._act(life, response)

    def _act(self, life: Life, response: BeatResponse) -> None:
        life.client.heard(response)
        if response.error_code in FENCED or response.error_code is ErrorCode.NONE:
            life.uses = life.client.owned

    # What clients do.

    @rule(index=CLIENTS)
    def beat(self, index: int) -> None:
        life = self.lives[index]
        if life.token is None:
            life.token = self.group.ask_beat(life.client.request())
            life.heard_ms = self.group.now_ms
        self._hear(life)

    @rule(index=CLIENTS)
    def lose_the_answer(self, index: int) -> None:
        """The connection breaks; the client will send everything again."""
        self.lives[index].token = None

    @rule(index=CLIENTS)
    def leave(self, index: int) -> None:
        life = self.lives[index]
        life.uses = frozenset()
        if life.client.epoch > 0:
            self.group.ask_beat(_leaving(life.client))
        self.lives[index] = Life(self._new(index))

    @rule(index=CLIENTS)
    def crash(self, index: int) -> None:
        """The process is gone, and with it what it used; another takes its place."""
        self.lives[index] = Life(self._new(index))

    @rule(index=CLIENTS, names=st.sampled_from([("t",), ("u",), TOPICS]))
    def subscribe(self, index: int, names: tuple[str, ...]) -> None:
        self.lives[index].client.names = frozenset(names)

    @rule(index=CLIENTS, is_late=st.booleans())
    def commit(self, index: int, is_late: bool) -> None:
        client = self.lives[index].client
        self.offset_next += 1
        epoch = client.epoch + 1 if is_late else client.epoch
        token = client.ask_commit(self.offset_next, "t", 0, epoch=epoch)
        if token in self.group.answers and self.group.committed(token) is not ErrorCode.NONE:
            self.refused.add(self.offset_next)

    # What the world does.

    @rule(topic=st.sampled_from(TOPICS))
    def grow(self, topic: str) -> None:
        self.counts[topic] = min(self.counts[topic] + 1, 6)
        self.group.make_topic(topic, self.counts[topic])

    @rule(by_ms=st.sampled_from([100, 5_000, 20_000, SESSION_MS, REBALANCE_MS]))
    def wait(self, by_ms: int) -> None:
        """Time passes; a client that hears nothing for a session stops using what it had, as real ones do."""
        self.group.advance(by_ms)
        for life in self.lives:
            if self.group.now_ms - life.heard_ms >= SESSION_MS:
                life.uses, life.client.owned = frozenset(), frozenset()
                life.client.epoch, life.token = 0, None

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


def _leaving(client: Client) -> Beat:
    epoch = EPOCH_LEAVE if client.instance is None else EPOCH_LEAVE_STATIC
    return replace(client.request(), member_epoch=epoch)


TestConsumerGroup = ConsumerMachine.TestCase
TestConsumerGroup.settings = settings(stateful_step_count=40)
