"""The comparison itself: what it must see, and what it must not mind."""

import pytest

from semel.protocol.messages.init_producer_id import InitProducerIdResponse
from semel.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from semel.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.differential.allowed import Allowed
from tests.differential.plain import Normaliser, differences
from tests.differential.run import Difference, compare, permits
from tests.differential.talk import Step

PREFIX = "script-own-"


def init_of(*ids: int) -> list[object]:
    """The producer ids of several answers, as one cluster's normaliser shows them."""
    shows = Normaliser(PREFIX)
    return [shows.plain(InitProducerIdResponse(producer_id=each), 4)["producer_id"] for each in ids]


def test_ids_are_compared_by_who_is_who() -> None:
    assert init_of(7, 9, 7, -1) == init_of(100, 50, 100, -1)
    assert init_of(7, 9, 7) != init_of(7, 9, 9)
    assert init_of(7, 9) != init_of(7, -1)


def topics(*names: str) -> MetadataResponse:
    """An answer that lists these topics."""
    return MetadataResponse(topics=[MetadataResponseTopic(name=name) for name in names])


def test_lists_without_order_are_compared_by_key_and_without_strangers() -> None:
    first = Normaliser(PREFIX).plain(topics("script-own-a", "script-own-b", "script-other-c"), 9)
    second = Normaliser(PREFIX).plain(topics("script-own-b", "script-own-a"), 9)
    assert not differences(first, second)
    fewer = Normaliser(PREFIX).plain(topics("script-own-a"), 9)
    assert differences(first, fewer) == [("topics.script-own-b", "(there)", "(absent)")]
    twice = Normaliser(PREFIX).plain(topics("script-own-a", "script-own-a", "script-own-b"), 9)
    assert differences(first, twice) == [("topics.script-own-a (2)", "(absent)", "(there)")]


def produced(**fields: object) -> object:
    """A Produce answer with one partition."""
    row = PartitionProduceResponse(index=0)
    for name, value in fields.items():
        setattr(row, name, value)
    answer = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[row])])
    return Normaliser(PREFIX).plain(answer, 9)


@pytest.mark.parametrize(
    ("field", "one", "other", "same"),
    [
        ("error_message", "full", "no space", True),
        ("error_message", "full", None, False),
        ("error_message", "", None, False),
        ("log_append_time_ms", 5, 6, False),
        ("base_offset", 3, 4, False),
        ("error_code", 2, 87, False),
    ],
)
def test_one_field_at_a_time(field: str, one: object, other: object, same: bool) -> None:
    found = differences(produced(**{field: one}), produced(**{field: other}))
    assert [path for path, _, _ in found] == ([] if same else [f"responses.t.partition_responses.0.{field}"])


def test_a_number_is_not_a_truth_value_and_a_shorter_list_differs() -> None:
    assert differences(1, True)
    assert differences([1, 2], [1])
    assert not differences([1, {"a": None}], [1, {"a": None}])


def test_an_allowed_difference_covers_only_what_it_names() -> None:
    found = Difference("s", "step v3", "Produce", "a.b", "1", "2")
    entry = Allowed(api="Produce", path="a.*", anchor="k00", reason="r", step="step *", apache="2")
    assert permits(entry, found)
    for change in ({"api": "Fetch"}, {"path": "a"}, {"step": "other"}, {"apache": "3"}, {"embedded": "2"}):
        changed = {"api": "Produce", "path": "a.*", "step": "step *", "apache": "2"} | change
        assert not permits(Allowed(anchor="k00", reason="r", **changed), found)


def test_a_script_that_takes_another_way_is_noticed() -> None:
    with pytest.raises(AssertionError, match="different ways"):
        compare("s", [Step("a", "Produce", {})], [Step("b", "Produce", {})])
