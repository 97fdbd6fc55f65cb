"""Members that join, sync, commit, leave and crash while the coordinator restarts: the promises hold throughout.

Keeps: G1 a token is answered once (the harness asserts it); G5 after ticks nobody waits; G3 one leader and protocol per
       generation; G4 assignments only to members of the generation; G6 refused commits are never visible; G7 accepted
       commits are visible after a replay; G8 a deleted group has no offsets.
"""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from semel.broker.groups.classic.types import JoinResponse, LeavingMember, SyncResponse
from semel.broker.groups.records import OffsetKey, decode_key, decode_offset_value
from semel.broker.groups.types import GroupSettings
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.harness import GROUP, RANGE, STICKY, Harness

CLIENTS = st.integers(0, 3)
PARTITIONS = st.integers(0, 1)
PRODUCERS = st.integers(1, 2)
MAYBE = st.booleans()


@dataclass
class Client:
    """What one client knows; the last of four is a static member."""

    instance: str | None
    member_id: str = ""
    joined: JoinResponse | None = None
    join_token: int | None = None
    sync_token: int | None = None


class GroupMachine(RuleBasedStateMachine):
    """Appends are durable when `settle` says so; a restart loses those that are not."""

    def __init__(self) -> None:
        """Start with an empty log."""
        super().__init__()
        self.group = Harness(GroupSettings(initial_rebalance_delay_ms=3_000, new_member_join_timeout_ms=30_000))
        self.clients = [Client(instance="static" if index == 3 else None) for index in range(4)]
        self.offset_next = 0
        self.possible: dict[int, set[int]] = {0: {-1}, 1: {-1}}
        self.commits: dict[int, tuple[int, int]] = {}  # token -> partition, offset: not answered yet
        self.refused: set[int] = set()
        self.pending: dict[int, dict[int, int]] = {}  # producer id -> partition -> offset
        self.generations: dict[tuple[int, str], set[tuple[str, str | None]]] = {}
        self.lives = 0

    # What clients do.

    @rule(index=CLIENTS, sticky=MAYBE)
    def join(self, index: int, sticky: bool) -> None:
        client = self.clients[index]
        protocols = (STICKY, RANGE) if sticky else (RANGE, STICKY)
        client.join_token = self.group.ask_join(
            client.member_id, instance=client.instance, protocols=protocols, rebalance_timeout_ms=20_000
        )
        self.collect()

    @rule(index=CLIENTS)
    def sync(self, index: int) -> None:
        client = self.clients[index]
        if client.joined is None:
            return
        leads = client.joined.leader == client.member_id and not client.joined.skip_assignment
        names = [member.member_id for member in client.joined.members] if leads else []
        given = {name: f"{client.joined.generation} {name}".encode() for name in names}
        client.sync_token = self.group.ask_sync(client.joined, given, instance=client.instance)
        self.collect()

    @rule(index=CLIENTS)
    def heartbeat(self, index: int) -> None:
        client = self.clients[index]
        if client.joined is not None:
            code = self.group.heartbeat(client.joined, instance=client.instance)
            if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.reset(client)

    @rule(index=CLIENTS)
    def leave(self, index: int) -> None:
        client = self.clients[index]
        self.group.leave(LeavingMember(member_id=client.member_id, group_instance_id=client.instance))
        self.reset(client)
        self.collect()

    @rule(index=CLIENTS)
    def crash(self, index: int) -> None:
        self.reset(self.clients[index])

    @rule(index=CLIENTS, partition=PARTITIONS)
    def commit(self, index: int, partition: int) -> None:
        client = self.clients[index]
        self.offset_next += 1
        token = self.group.ask_commit(self.offset_next, client.joined, partition=partition, instance=client.instance)
        self.commits[token] = (partition, self.offset_next)
        self.collect()

    @rule(producer_id=PRODUCERS, partition=PARTITIONS)
    @precondition(lambda self: not self.group.holds_appends)
    def commit_in_transaction(self, producer_id: int, partition: int) -> None:
        self.offset_next += 1
        token = self.group.ask_txn_commit(self.offset_next, producer_id, partition=partition)
        if self.group.committed(token) is ErrorCode.NONE:
            self.pending.setdefault(producer_id, {})[partition] = self.offset_next

    @rule(producer_id=PRODUCERS, commit=MAYBE)
    @precondition(lambda self: not self.group.holds_appends)
    def end_transaction(self, producer_id: int, commit: bool) -> None:
        self.group.end_transaction(producer_id, commit=commit)
        for partition, offset in self.pending.pop(producer_id, {}).items():
            # A later plain commit wins, so a commit earlier in the log may change nothing.
            if commit and offset > max(self.possible[partition]):
                self.possible[partition] = {offset}

    @rule()
    @precondition(lambda self: not self.group.holds_appends)
    def delete(self) -> None:
        if self.group.deleted(self.group.ask_delete_group()) is ErrorCode.NONE:
            self.possible = {0: {-1}, 1: {-1}}
            self.pending.clear()

    # What the world does.

    @rule()
    def hold(self) -> None:
        self.group.holds_appends = True

    @rule(code=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]))
    @precondition(lambda self: self.group.held)
    def settle(self, code: ErrorCode) -> None:
        self.group.release(code)
        self.collect()

    @rule()
    @precondition(lambda self: self.group.holds_appends)
    def settle_all(self) -> None:
        self.group.release_all()
        self.collect()

    @rule(by_ms=st.sampled_from([1, 1_000, 5_000, 9_000, 30_000]))
    def advance(self, by_ms: int) -> None:
        self.group.advance(by_ms)
        self.collect()

    @rule(written=st.integers(0, 3))
    def restart(self, written: int) -> None:
        """Some of the appends that nobody was told about are in the log all the same."""
        for effect in self.group.held[:written]:
            self.group.write(effect)
            for record in effect.records:
                key = decode_key(record.key)
                if isinstance(key, OffsetKey) and record.value is not None:
                    self.possible[key.partition] = {decode_offset_value(record.value).offset_next}
        self.group.holds_appends = False
        self.group.restart()
        self.lives += 1
        self.collect()
        self.commits.clear()
        for client in self.clients:
            client.join_token = client.sync_token = None

    # What clients learn.

    def reset(self, client: Client) -> None:
        client.member_id, client.joined = "", None
        client.join_token = client.sync_token = None

    def collect(self) -> None:
        for client in self.clients:
            self.collect_join(client)
            self.collect_sync(client)
        for token in sorted(self.commits.keys() & self.group.answers.keys()):
            partition, offset = self.commits.pop(token)
            if self.group.committed(token) is ErrorCode.NONE:
                self.possible[partition] = {offset}
            else:
                self.refused.add(offset)

    def collect_join(self, client: Client) -> None:
        if client.join_token is None or client.join_token not in self.group.answers:
            return
        response = self.group.joined(client.join_token)
        client.join_token = None
        if response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error_code is ErrorCode.NONE:
            client.member_id, client.joined = response.member_id, response
            self.note_generation(response)
        elif response.error_code is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.reset(client)

    def note_generation(self, joined: JoinResponse) -> None:
        """A static leader that came back changes its id, nothing else; so it is known by its instance."""
        leader = "static" if joined.leader.startswith("static-") else joined.leader
        seen = self.generations.setdefault((joined.generation, str(self.lives)), set())
        seen.add((leader, joined.protocol_name))
        assert len(seen) == 1, f"generation {joined.generation} has {seen}"
        if joined.leader == joined.member_id:
            assert joined.member_id in {member.member_id for member in joined.members}

    def collect_sync(self, client: Client) -> None:
        if client.sync_token is None or client.sync_token not in self.group.answers:
            return
        response = self.group.answers[client.sync_token]
        assert isinstance(response, SyncResponse)
        client.sync_token = None
        if response.error_code is ErrorCode.NONE and response.assignment and client.joined is not None:
            generation, name = response.assignment.decode().split()
            assert int(generation) == client.joined.generation
            assert name == client.member_id or client.instance is not None

    @invariant()
    def reads_agree(self) -> None:
        for partition, possible in self.possible.items():
            seen = self.group.fetch(partition=partition).offset_next
            assert seen in possible, f"partition {partition}: {seen}, expected {possible}"
            assert seen not in self.refused

    @invariant()
    def members_are_sane(self) -> None:
        described = self.group.core.describe_group(GROUP)
        names = [member.member_id for member in described.members]
        assert len(names) == len(set(names))
        assert (described.state in ("Empty", "Dead")) == (not names) or described.state == "PreparingRebalance"

    def teardown(self) -> None:
        """Let everything settle: nobody may be left waiting."""
        self.group.release_all()
        for _ in range(20):
            self.group.advance(30_000)
        assert not self.group.waiting()
        described = self.group.core.describe_group(GROUP)
        assert described.members == ()


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(stateful_step_count=40)
