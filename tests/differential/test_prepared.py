"""Between the decision and the last marker: every request, on the embedded cluster and on Apache Kafka.

Keeps: T2 a decided transaction stays decided; T4 a retried request has the effect of one.
"""

from dataclasses import replace

import pytest

from semel.errors import EnvironmentFailure
from semel.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from semel.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.protocol.messages.end_txn import EndTxnResponse
from tests.differential.acts import await_partitions, fetch
from tests.differential.held import Held, held_apache, held_embedded
from tests.differential.run import compare
from tests.differential.scripts.visibility import ONE_SEGMENT
from tests.differential.talk import Step, Talk, Versions
from tests.differential.transacting import NEW_END, NEW_PRODUCE, OLD_ADD, OLD_END, OLD_PRODUCE, Actor

STEPS_MIN = 120


def make_topic_at(talk: Talk, leader_id: int, text: str) -> str:
    """A topic that the other broker leads."""
    topic = talk.name(text)
    rows = [CreatableReplicaAssignment(partition_index=at, broker_ids=[leader_id]) for at in range(2)]
    config = [CreatableTopicConfig(name=key, value=value) for key, value in ONE_SEGMENT.items()]
    whole = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=rows, configs=config)
    answer = talk.peek(CreateTopicsRequest(topics=[whole], timeout_ms=10_000), CreateTopicsResponse)
    assert not answer.topics[0].error_code, answer
    return topic


def open_transaction(actor: Actor, leader: Talk, end: int) -> None:
    """Become the owner and write one record."""
    actor.start()
    if end < NEW_END:
        actor.talk.peek(actor.add_request(), AddPartitionsToTxnResponse, version=OLD_ADD)
    writer = replace(actor, talk=leader)
    writer.open(NEW_PRODUCE if end >= NEW_END else OLD_PRODUCE)


def ask_everything(actor: Actor, name: str) -> None:
    """Every request a client can send to the coordinator, as the owner of the epoch it holds."""
    actor.describe(f"{name}: described")
    actor.init(f"{name}: init")
    actor.init(f"{name}: init as the owner", expected=actor.producer)
    for version in (0, OLD_ADD, 5):
        actor.add(f"{name}: add", version)
    actor.add(f"{name}: add another", OLD_ADD, partition=1)
    for version in (4, 5):
        actor.add(f"{name}: verify", version, verify=True)
    actor.add_offsets(f"{name}: add offsets", 4)
    for version in (0, OLD_END, NEW_END):
        for commit in (True, False):
            request = actor.end_request(commit=commit)
            actor.talk.ask(f"{name}: end, commit {commit}", request, EndTxnResponse, version=version)


def script(held: Held, talk: Talk, leader: Talk) -> None:
    """Hold four transactions, ask everything, let them go."""
    kinds = [(end, commit) for end in (OLD_END, NEW_END) for commit in (True, False)]
    actors = []
    for end, commit in kinds:
        topic = make_topic_at(talk, held.leader_id, f"topic-{end}-{commit}")
        await_partitions(leader, topic, 2)
        actor = Actor(talk, talk.name(f"{end}-{commit}"), topic, talk.name("group"))
        open_transaction(actor, leader, end)
        actors.append(actor)
    held.hold()
    try:
        for actor, (end, commit) in zip(actors, kinds, strict=True):
            name = f"end v{end}, commit {commit}"
            talk.ask(name, actor.end_request(commit=commit), EndTxnResponse, version=end)
            for epoch in (actor.producer[1], actor.producer[1] + 1):
                ask_everything(replace(actor, producer=(actor.producer[0], epoch)), f"{name}, epoch {epoch}")
    finally:
        held.release()
    for actor in actors:
        actor.settle()
        actor.describe("settled")
        actor.init("a new owner")
        for isolation in (0, 1):
            fetch(leader, f"read in the end, isolation {isolation}", actor.topic, isolation=isolation)


def record(held: Held, versions: Versions) -> list[Step]:
    """Run the script on one cluster."""
    talk, leader = (Talk(side, versions, "script-held-") for side in (held.coordinator, held.leader))
    try:
        script(held, talk, leader)
    finally:
        talk.close()
        leader.close()
    return [*talk.steps, *leader.steps]


@pytest.mark.full
def test_a_decided_transaction_answers_the_same_until_its_markers_are_written() -> None:
    try:
        with held_embedded() as ours, held_apache() as theirs:
            both = ours.versions.keys() & theirs.versions
            common = {
                key: (
                    max(ours.versions[key][0], theirs.versions[key][0]),
                    min(ours.versions[key][1], theirs.versions[key][1]),
                )
                for key in both
            }
            embedded, apache = record(ours, common), record(theirs, common)
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka cannot be started here: {failure}")
    found = compare("held", embedded, apache)
    assert not found, "\n".join(map(str, found))
    assert len(embedded) >= STEPS_MIN
