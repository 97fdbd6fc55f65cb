"""Readers: fetch every partition again and again, filter as clients do, and now and then start over from the first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from semel.errors import ConnectionFailure
from semel.history import Outcome, Place, Read
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from semel.protocol.record_batch import Marker, decode_marker, decode_records, iter_headers, read_header
from semel.sim.client import HEALED_MS_MAX, REQUEST_MS_MAX, Activity, Client

# The last version that names topics, which is all a client here knows.
FETCH_VERSION = 12
FETCH_BYTES_MAX = 1 << 20
FETCH_WAIT_MS = 50
START_OVER_CHANCE = 0.08
LOST_START_OVER_CHANCE = 0.3  # also the way out for a reader whose offset is gone
BATCHES_REMEMBERED = 4096  # readers start over, and each reads every batch: most have been decoded before


class Reader:
    """Fetches for one client under one isolation."""

    def __init__(self, client: Client, *, committed: bool) -> None:
        """Read as this client."""
        self._client = client
        self._committed = committed

    async def fetch(self, place: Place, offset_start: int, *, final: bool = False) -> Read | None:
        """One fetch, recorded; None when nothing came of it."""
        recorder, invoked = self._client.recorder, self._client.recorder.begin()
        try:
            channel, leader_epoch = await self._client.leader_of(place)
            request = self._request(place, offset_start, leader_epoch)
            answer = await channel.ask(request, FetchResponse, FETCH_VERSION, REQUEST_MS_MAX)
        except ConnectionFailure:
            self._client.forget_leader(place)
            return None
        row = answer.responses[0].partitions[0] if answer.responses else PartitionData(error_code=answer.error_code)
        if row.error_code:
            # Also for errors that have nothing to do with the leader: asking again costs little.
            self._client.forget_leader(place)
            if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                read = Read(
                    place=place, committed=self._committed, leader_epoch=leader_epoch, offset_start=offset_start
                )
                recorder.end(self._client.name, read, Outcome.FAILED, invoked, ErrorCode.OFFSET_OUT_OF_RANGE.name)
            return None
        read = self._read(place, offset_start, leader_epoch, row, final)
        recorder.end(self._client.name, read, Outcome.OK, invoked)
        return read

    def _request(self, place: Place, offset_start: int, leader_epoch: int) -> FetchRequest:
        row = FetchPartition(
            partition=place[1],
            current_leader_epoch=leader_epoch,
            fetch_offset=offset_start,
            partition_max_bytes=FETCH_BYTES_MAX,
        )
        return FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=int(self._committed),
            topics=[FetchTopic(topic=place[0], partitions=[row])],
        )

    def _read(self, place: Place, offset_start: int, leader_epoch: int, row: PartitionData, final: bool) -> Read:
        records, offset_next = visible_records(row, offset_start, committed=self._committed)
        return Read(
            place=place,
            committed=self._committed,
            leader_epoch=leader_epoch,
            offset_start=offset_start,
            offset_next=offset_next,
            high_watermark=row.high_watermark,
            last_stable_offset=row.last_stable_offset,
            records=tuple(records),
            final=final,
        )


def visible_records(row: PartitionData, offset_start: int, *, committed: bool) -> tuple[list[tuple[int, str]], int]:
    """What a client hands to its user, and where it goes on: aborted transactions are skipped as the answer lists."""
    data = row.records if isinstance(row.records, memoryview) else memoryview(b"")
    aborted = sorted((one.first_offset, one.producer_id) for one in row.aborted_transactions or ()) if committed else []
    ignored: set[int] = set()
    records: list[tuple[int, str]] = []
    offset_next = offset_start
    for position, header in iter_headers(data):
        offset_next = header.offset_next
        # As clients do: a transaction is skipped from the first batch on that reaches its first offset.
        while aborted and aborted[0][0] <= header.last_offset:
            ignored.add(aborted.pop(0)[1])
        if header.is_control:
            # A commit marker ends nothing here, since only aborted transactions are listed.
            if decode_marker(data, header, position)[0] is Marker.ABORT:
                ignored.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in ignored):
            found = _values(bytes(data[position : position + header.size_bytes]))
            records += [one for one in found if one[0] >= offset_start]
    return records, offset_next


@lru_cache(maxsize=BATCHES_REMEMBERED)
def _values(batch: bytes) -> tuple[tuple[int, str], ...]:
    return tuple((one.offset, (one.value or b"").decode()) for one in decode_records(batch, read_header(batch)))


class ReadingClient(Activity):
    """Reads all partitions as they grow."""

    pace_ms = 250
    aim = "read every partition to its end"

    def __init__(self, client: Client, places: Sequence[Place], *, committed: bool) -> None:
        """Start at the beginning of each."""
        super().__init__(client)
        self._reader = Reader(client, committed=committed)
        self._positions = dict.fromkeys(places, 0)

    async def work(self) -> None:
        """One fetch of each partition."""
        for place, position in self._positions.items():
            read = await self._reader.fetch(place, position)
            starts_over = self.client.rng.chance(START_OVER_CHANCE if read is not None else LOST_START_OVER_CHANCE)
            if starts_over:
                # From the first offset again: what was read once must still be there.
                self._positions[place] = 0
            elif read is not None:
                self._positions[place] = read.offset_next

    async def settle(self) -> bool:
        """Read everything once more from the first offset to the end, past every transaction."""
        deadline_ms = self.client.clock.monotonic_ms() + HEALED_MS_MAX
        for place in self._positions:
            if not await self._read_to_end(place, deadline_ms):
                return False
        return True

    async def _read_to_end(self, place: Place, deadline_ms: float) -> bool:
        position = 0
        while self.client.clock.monotonic_ms() < deadline_ms:
            read = await self._reader.fetch(place, position, final=True)
            if read is None:
                position = 0
                await self.client.pause()
            # The high watermark and not the last stable offset: the last read waits until every transaction is decided.
            elif read.offset_next >= read.high_watermark:
                return True
            else:
                is_waiting = read.offset_next == position
                position = read.offset_next
                if is_waiting:
                    await self.client.pause()
        return False
