"""What record batches can hold, drawn over the whole domain: nulls, gaps, headers, every codec and time."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from semel.protocol.compression import Codec
from semel.protocol.record_batch import DraftRecord, Record, TimestampType, encode_batch

TIMESTAMP_MS_MAX = 9_223_372_036_854_775
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CELLS = st.none() | st.binary(max_size=40) | st.binary(min_size=120, max_size=300)
TIMES_MS = (
    st.integers(-TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX)
    | st.integers(1_700_000_000_000, 1_700_000_100_000)
    | st.integers(-5, 5)
)
HEADERS = st.lists(st.tuples(NAMES, CELLS), max_size=4).map(tuple)
DRAFTS = st.lists(
    st.builds(DraftRecord, key=CELLS, value=CELLS, timestamp_ms=TIMES_MS, headers=HEADERS), min_size=1, max_size=12
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A batch and the records that must come out of it."""

    encoded: bytes
    records: tuple[Record, ...]
    offset_next: int
    timestamp_type: TimestampType


def _with_gaps(drafts: list[DraftRecord], gaps: list[int]) -> list[DraftRecord]:
    delta, placed = -1, []
    for draft, gap in zip(drafts, gaps, strict=True):
        delta += gap
        placed.append(replace(draft, offset_delta=delta))
    return placed


@st.composite
def samples(draw: st.DrawFn, *, base_offset: int | None = None) -> Sample:
    """Draw one batch; the last offset may lie beyond the last record, as compaction leaves it."""
    drafts = draw(DRAFTS | st.just([]))
    gaps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 300]), min_size=len(drafts), max_size=len(drafts)))
    placed = _with_gaps(drafts, gaps)
    last_delta = (placed[-1].offset_delta or 0 if placed else 0) + draw(st.sampled_from([0, 0, 5]))
    base = draw(st.integers(0, 2**48)) if base_offset is None else base_offset
    kind = draw(st.sampled_from(TimestampType))
    encoded = encode_batch(
        placed,
        base_offset=base,
        codec=draw(st.sampled_from(Codec)),
        timestamp_type=kind,
        last_offset_delta=last_delta,
        producer_id=draw(st.sampled_from([-1, 0, 2**63 - 1])),
        transactional=draw(st.booleans()),
    )
    append_ms = max((draft.timestamp_ms for draft in drafts), default=-1)
    records = tuple(
        Record(
            offset=base + (draft.offset_delta or 0),
            timestamp_ms=append_ms if kind is TimestampType.LOG_APPEND_TIME else draft.timestamp_ms,
            key=draft.key,
            value=draft.value,
            headers=draft.headers,
        )
        for draft in placed
    )
    return Sample(encoded=encoded, records=records, offset_next=base + last_delta + 1, timestamp_type=kind)


@st.composite
def logs(draw: st.DrawFn) -> list[Sample]:
    """Draw a few batches that follow each other, with offsets missing in between."""
    following: list[Sample] = []
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 4))):
        following.append(draw(samples(base_offset=offset)))
        offset = following[-1].offset_next + draw(st.sampled_from([0, 0, 7]))
    return following
