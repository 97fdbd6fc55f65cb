"""A long message can be encoded with pauses, and then has the same bytes."""

from __future__ import annotations

import random

import pytest

from semel.broker.network.registry import AnyApi
from semel.protocol.message import Message, Output, encode_bytes, encode_pausing
from semel.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.hardening.generated import Extremes, served_apis

MANY = 1_000


def written(message: Message, version: int) -> tuple[bytes, int]:
    """The bytes, and how often the writer stopped."""
    output = Output()
    pauses = sum(1 for _ in encode_pausing(message, version, output))
    return b"".join(bytes(part) for part in output.finish()), pauses  # type: ignore[arg-type]  # no payload of a file


@pytest.mark.parametrize("api", served_apis(), ids=lambda api: api.name)
def test_the_bytes_are_the_same_as_without_pauses(api: AnyApi) -> None:
    drawn = Extremes(random.Random(api.key), elements_max=20)
    for version in range(api.first, api.last + 1):
        answer = drawn.message(api.response, version)
        assert written(answer, version)[0] == encode_bytes(answer, version)


@pytest.mark.parametrize(("topics", "partitions"), [(MANY, 0), (1, MANY), (MANY // 10, 10)])
def test_others_may_go_on_after_a_few_hundred_elements_at_any_depth(topics: int, partitions: int) -> None:
    rows = [MetadataResponsePartition(partition_index=index) for index in range(partitions)]
    answer = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=rows) for _ in range(topics)])
    data, pauses = written(answer, 9)
    assert data == encode_bytes(answer, 9)
    assert pauses >= 4


def test_a_short_message_is_written_at_once() -> None:
    assert written(MetadataResponse(topics=[MetadataResponseTopic(name="t")]), 9)[1] == 0
