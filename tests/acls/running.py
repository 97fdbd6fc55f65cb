"""Runs a case on one cluster: with no rights, without each right that it needs, with all of them, and with too few."""

from __future__ import annotations

from collections.abc import Iterator

from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.offset_commit import OffsetCommitResponse
from semel.protocol.messages.produce import ProduceResponse
from tests.acls.cases import REFUSALS, Case, Place
from tests.acls.cluster_cases import CLUSTER_CASES
from tests.acls.group_cases import GROUP_CASES
from tests.acls.record_cases import RECORD_CASES
from tests.acls.rights import without_each
from tests.acls.user_talk import UserTalk
from tests.differential.acts import batch, commit_request, fill, make_topic, produce_request, topic_id
from tests.differential.plain import Plain
from tests.differential.talk import Side, Step, Versions
from tests.support.waiting import eventually

CASES = {case.name: case for case in (*RECORD_CASES, *GROUP_CASES, *CLUSTER_CASES)}
USED, BOTH = ("used",), ("used", "other")


def prepare(side: Side, versions: Versions, prefix: str) -> Place:
    """Make, as the administrator, everything that the cases are about."""
    place = Place(UserTalk(side, versions, prefix))
    talk = place.talk
    _wake(talk)
    _begin(talk, "first")  # may get the id 0, which elsewhere means that there is none
    for text in ("used", "other", "lost-used", "lost-other", "marked"):
        topic = make_topic(talk, text)
        place.ids[text] = topic_id(talk, topic)
        fill(talk, topic, 1)
    for group in ("readers-used", "readers-other", "lost-used", "lost-other", "forgetful"):
        for text in BOTH:
            request = commit_request(talk.name(group), talk.name(text), 1)
            committed = talk.peek(request, OffsetCommitResponse, version=9)
            assert not committed.topics[0].partitions[0].error_code, committed
    place.producer = _begin(talk, "transfers")
    _leave_open(talk)
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=talk.name("consumers"),
        member_id="member",
        rebalance_timeout_ms=600_000,
        subscribed_topic_names=[talk.name("used")],
        topic_partitions=[],
    )
    joined = talk.peek(heartbeat, ConsumerGroupHeartbeatResponse)
    assert not joined.error_code, joined
    return place


def _wake(talk: UserTalk) -> None:
    """Have both coordinators' topics made, and the partitions loaded that the cases use."""
    keys = [talk.name(text) for text in ("readers-used", "readers-other", "lost-used", "lost-other", "forgetful")]
    keys += [talk.name(text) for text in ("consumers", "beating", "joined", "transfers", "open", "begun", "first")]
    for key in keys:
        talk.peek_coordinator(key)


def _begin(talk: UserTalk, text: str) -> tuple[int, int]:
    """The producer of a transactional id that has not written yet."""
    request = InitProducerIdRequest(transactional_id=talk.name(text), transaction_timeout_ms=600_000)

    def begun() -> tuple[int, int] | None:
        answer = talk.peek(request, InitProducerIdResponse)
        return None if answer.error_code else (answer.producer_id, answer.producer_epoch)

    return eventually(begun, what=f"a transactional producer on {talk.side.name}")


def _leave_open(talk: UserTalk) -> None:
    """A transaction that has written to both topics and never ends."""
    producer = _begin(talk, "open")
    for text in BOTH:
        data = batch(producer=producer, sequence=0, transactional=True)
        request = produce_request(talk.name(text), data, transactional_id=talk.name("open"))
        answer = talk.peek(request, ProduceResponse, version=12)
        assert not answer.responses[0].partition_responses[0].error_code, answer


def run(case: Case, place: Place) -> dict[str, list[Step]]:
    """What the cluster answered: under "none", "without …", "mixed" and "all"."""
    talk, needed = place.talk, case.rights(place)
    talk.start_afresh({topic_id: talk.name(text) for text, topic_id in place.ids.items() if topic_id is not None})
    versions = case.asked_in(talk)
    recorded: dict[str, list[Step]] = {}

    def ask(label: str, names: tuple[str, ...], asked: list[int]) -> None:
        talk.steps = recorded.setdefault(label, [])
        for version in asked:
            talk.ask(f"{case.name}, {label}", case.request(place, names, version), case.response, version=version)

    talk.let(())
    ask("none", USED, versions)
    if len(needed) > 1:
        for number, (_, left) in enumerate(without_each(needed)):
            talk.let(left)
            ask(without(case, number), USED, versions)
    talk.let(needed)
    if case.mixed:
        ask("mixed", BOTH, versions[-1:] if case.mixed_version is None else [case.mixed_version])
    ask("all", USED, versions[-1:])
    talk.let(())
    return recorded


def without(case: Case, number: int) -> str:
    """The label of the answers without one of the rights; one alone is none."""
    return f"without {' '.join(case.needs[number])}" if len(case.needs) > 1 else "none"


def codes(answer: Plain) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key.endswith("error_code") and isinstance(value, int):
                yield value
            yield from codes(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from codes(value)


def refusals(steps: list[Step]) -> list[set[ErrorCode]]:
    """The authorization errors in each answer."""
    return [{ErrorCode(code) for code in codes(step.answer) if code in REFUSALS} for step in steps]
