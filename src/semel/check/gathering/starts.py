"""Which transactions are under way at an offset: who starts reading there gets their rest and not their beginning."""

from __future__ import annotations

import json
from collections.abc import Mapping

from semel.check.facts import FactMissing, QueryFacts
from semel.errors import ConfigError
from semel.protocol.batch_header import iter_headers
from semel.wire.cluster import WireCluster
from semel.wire.deadline import Deadline
from semel.wire.fetch import fetch
from semel.wire.offsets import EARLIEST, list_offsets
from semel.wire.topology import Isolation, TopicPartition

LOOK_BACK = 10_000  # offsets before the start that are looked at
LOOK_BYTES_MAX = 4 << 20


def named_starts(query: QueryFacts) -> dict[TopicPartition, int]:
    """The offsets that `startingOffsets` names; earliest and latest, as words or as -2 and -1, are none."""
    text = query.text("startingOffsets")
    if not text.startswith("{"):
        return {}
    try:
        rows = [(topic, number, offset) for topic, row in json.loads(text).items() for number, offset in row.items()]
        places = {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in rows}
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(
            f"{query.name}: startingOffsets is not JSON of offsets", you_wrote=text, you_want='{"orders":{"0":42}}'
        ) from None
    return {place: offset for place, offset in places.items() if offset > 0}


def open_at(
    cluster: WireCluster, starts: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, int | None]:
    """For each start, the first offset of a transaction that is under way there; None when there is none."""
    earliest = list_offsets(cluster, dict.fromkeys(starts, EARLIEST), deadline=deadline)
    return {place: _open_at(cluster, place, start, earliest[place].offset, deadline) for place, start in starts.items()}


def _open_at(cluster: WireCluster, place: TopicPartition, start: int, log_start: int, deadline: Deadline) -> int | None:
    open_ones: dict[int, int] = {}
    offset = max(log_start, start - LOOK_BACK)
    # Only headers are looked at, and only so far back: a transaction that wrote nothing in between is not seen.
    while offset < start:
        fetched = fetch(
            cluster,
            {place: offset},
            deadline=deadline,
            isolation=Isolation.READ_UNCOMMITTED,
            partition_bytes_max=LOOK_BYTES_MAX,
        )
        headers = [header for _, header in iter_headers(fetched[place].records)] if place in fetched else []
        if not headers:
            raise FactMissing(f"{place} could not be read up to offset {start}")
        for header in headers:
            if header.base_offset >= start or not header.is_transactional:
                continue
            # A marker ends the transaction of its producer, whichever way it was decided.
            if header.is_control:
                open_ones.pop(header.producer_id, None)
            else:
                open_ones.setdefault(header.producer_id, header.base_offset)
        offset = headers[-1].offset_next
    return min(open_ones.values(), default=None)
