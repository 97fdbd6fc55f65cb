"""Assignors over drawn groups. Keeps: G10 one member for each partition, and only for those who subscribed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.groups.consumer.assignors import ASSIGNORS, Shares, Subscriber, assign_range, assign_uniform
from tests.unit.broker.groups.consumer_harness import of, topic_id

TOPICS = [topic_id(name) for name in "tuvw"]
COUNTS = st.fixed_dictionaries({each: st.integers(0, 9) for each in TOPICS})
SUBSCRIPTIONS = st.sets(st.sampled_from(TOPICS), min_size=1).map(frozenset)


def member(member_id: str, topics: frozenset[UUID], instance_id: str | None = None) -> Subscriber:
    """A member without a past."""
    return Subscriber(member_id=member_id, instance_id=instance_id, topics=topics)


def members_of(subscriptions: Sequence[frozenset[UUID]]) -> list[Subscriber]:
    """One member for each subscription."""
    return [member(f"m{index}", topics) for index, topics in enumerate(subscriptions)]


MEMBERS = st.lists(SUBSCRIPTIONS, max_size=7).map(members_of)
EQUAL = st.builds(lambda topics, count: members_of([topics] * count), SUBSCRIPTIONS, st.integers(1, 7))


def check(members: Sequence[Subscriber], counts: Mapping[UUID, int], shares: Shares) -> None:
    """Everything that can be read is read once, by somebody who asked for it."""
    assert shares.keys() == {each.member_id for each in members}
    owners = Counter(partition for share in shares.values() for partition in share)
    wanted = frozenset().union(*(each.topics for each in members))
    assert owners == Counter(
        (each, index) for each, count in counts.items() if each in wanted for index in range(count)
    )
    for each in members:
        assert {owner for owner, _ in shares[each.member_id]} <= each.topics


def spread(shares: Shares) -> int:
    """The difference between the largest share and the smallest."""
    sizes = [len(share) for share in shares.values()]
    return max(sizes) - min(sizes)


def with_past(members: Sequence[Subscriber], shares: Shares) -> list[Subscriber]:
    """The same members, later."""
    return [replace(each, previous=shares.get(each.member_id, frozenset())) for each in members]


@pytest.mark.parametrize("name", ASSIGNORS)
@given(members=MEMBERS, counts=COUNTS)
def test_every_partition_has_one_reader(name: str, members: list[Subscriber], counts: dict[UUID, int]) -> None:
    check(members, counts, ASSIGNORS[name](members, counts))


@given(members=EQUAL, counts=COUNTS)
def test_uniform_shares_differ_by_one_at_most(members: list[Subscriber], counts: dict[UUID, int]) -> None:
    assert spread(assign_uniform(members, counts)) <= 1


@given(members=EQUAL, counts=COUNTS, data=st.data())
def test_uniform_moves_no_more_than_it_must(
    members: list[Subscriber], counts: dict[UUID, int], data: st.DataObject
) -> None:
    before = assign_uniform(members, counts)
    newcomer = replace(members[0], member_id="new")
    later = [*with_past(members, before), newcomer]
    after = assign_uniform(later, counts)
    check(later, counts, after)
    assert spread(after) <= 1
    moved = sum(len(before[each.member_id] - after[each.member_id]) for each in members)
    assert moved == len(after["new"]), "only what the newcomer gets is taken away"
    if len(members) > 1:
        gone = data.draw(st.sampled_from(members)).member_id
        left = [each for each in with_past(members, before) if each.member_id != gone]
        rest = assign_uniform(left, counts)
        assert all(before[each.member_id] <= rest[each.member_id] for each in left), "nothing is taken away"


@given(members=MEMBERS, counts=COUNTS)
def test_uniform_leaves_no_move_that_would_even_two_shares_out(
    members: list[Subscriber], counts: dict[UUID, int]
) -> None:
    shares = assign_uniform(members, counts)
    for giver in members:
        for taker in members:
            can_move = any(each in taker.topics for each, _ in shares[giver.member_id])
            assert not can_move or len(shares[giver.member_id]) - len(shares[taker.member_id]) < 2


@given(members=MEMBERS, counts=COUNTS)
def test_uniform_keeps_a_balanced_assignment(members: list[Subscriber], counts: dict[UUID, int]) -> None:
    shares = assign_uniform(members, counts)
    assert assign_uniform(with_past(members, shares), counts) == shares


def test_uniform_forgets_what_is_no_longer_there() -> None:
    stale = replace(member("a", frozenset({TOPICS[0]})), previous=of("t", 0, 7) | of("u", 0))
    assert assign_uniform([stale], {TOPICS[0]: 2}) == {"a": of("t", 0, 1)}


def test_uniform_breaks_a_tie_between_two_claims() -> None:
    both = [replace(member(name, frozenset({TOPICS[0]})), previous=of("t", 0, 1)) for name in "ab"]
    check(both, {TOPICS[0]: 2}, assign_uniform(both, {TOPICS[0]: 2}))


def test_range_gives_runs_and_the_first_members_one_more() -> None:
    everything = frozenset(TOPICS[:2])
    members = [member("a", everything), member("z", everything, "i"), member("c", frozenset({TOPICS[0]}))]
    shares = assign_range(members, {TOPICS[0]: 7, TOPICS[1]: 3})
    assert shares == {
        "z": of("t", 0, 1, 2) | of("u", 0, 1),
        "a": of("t", 3, 4) | of("u", 2),
        "c": of("t", 5, 6),
    }


def test_a_large_group_is_assigned_in_no_time() -> None:
    topics = frozenset(TOPICS)
    members = [member(f"m{index}", topics) for index in range(200)]
    counts = dict.fromkeys(TOPICS, 500)
    shares = assign_uniform(members, counts)
    assert spread(assign_uniform([*with_past(members, shares), member("new", topics)], counts)) <= 1
