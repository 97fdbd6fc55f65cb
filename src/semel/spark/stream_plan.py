"""Plans what a stream reads next: from the offsets it has reached and what the cluster has, to offsets and ranges.

Keeps: lost records are reported; a silent leader holds up only its own partitions; the first micro-batch's
       start is kept with its end; a partition that appears later is read from its first record; a stream that knows
       its pipeline plans no micro-batch across the end of the output (E15).
Why:   Spark asks for the end of a micro-batch (`latest`) and then for its ranges. What was found out for the first
       answer is kept for the second; only after a restart are the ranges planned from the offsets alone.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from semel.errors import ConnectionFailure
from semel.spark import data_loss
from semel.spark.data_loss import Loss
from semel.spark.hanging import HangingWatch
from semel.spark.offsets import SourceOffsets
from semel.spark.options import SourceOptions
from semel.spark.positions import AtLedger, AtOffsets, Edge, check_found, resolve
from semel.spark.ranges import OffsetRange
from semel.spark.view import KafkaView, Seen, topic_ids
from semel.wire.topology import TopicInfo, TopicPartition

_log = logging.getLogger(__name__)
Offsets = dict[TopicPartition, int]


def admit(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], offsets_max: int | None
) -> Offsets:
    """Give each partition its end: all of it, or a share of `maxOffsetsPerTrigger` in proportion to what waits there.

    As Spark's Kafka source does: a share below one is one, so that a small backlog beside a huge one still moves; the
    sum may therefore pass the limit by less than the number of partitions.
    """
    waiting = {one: max(0, end - start[one]) for one, end in latest.items()}
    total = sum(waiting.values())
    if offsets_max is None or total <= offsets_max:
        # A log that was cut may end before its start; then nothing is read, never something again.
        return {one: max(end, start[one]) for one, end in latest.items()}
    return {one: start[one] + _share(rows, total, offsets_max) for one, rows in waiting.items()}


def _share(waiting: int, total: int, offsets_max: int) -> int:
    share = offsets_max * waiting / total
    return min(waiting, math.ceil(share) if share < 1 else math.floor(share))


class StreamPlan:
    """One running stream on the driver; it could forget everything and would only have to ask the cluster again."""

    def __init__(self, options: SourceOptions, view: KafkaView) -> None:
        """Ask nothing yet."""
        self._options = options
        self._view = view
        self._watch = HangingWatch(options, view)
        self._target: Offsets | None = None
        self._planned: tuple[SourceOffsets, SourceOffsets, list[OffsetRange]] | None = None
        self._silent: frozenset[TopicPartition] = frozenset()
        self._is_level = options.pipeline is None
        self._held: Offsets | None = None
        self.latest_seen: Offsets = {}

    def initial(self) -> SourceOffsets:
        """Where a new query starts, from its options."""
        topics = self._view.topics()
        wanted = self._options.subscription
        partitions = wanted.select(topics)
        check_found(partitions, wanted.missing(topics), repr(wanted.pattern))
        position = self._options.starting or Edge.LATEST
        offsets = resolve(position, partitions, self._view)
        # Only offsets that somebody wrote down can lie behind the
        # end of the log; those of edges and times come from it.
        if isinstance(position, AtOffsets | AtLedger):
            losses = data_loss.beyond(offsets, self._view.log_ends(partitions))
            self._report(losses)
            offsets |= _resumed(losses)
        return SourceOffsets(offsets_next=offsets, topic_ids=topic_ids(topics, partitions), initial=True)

    def set_target(self) -> None:
        """Read only what is there now: Trigger.AvailableNow. Every leader has to answer."""
        partitions = self._options.subscription.select(self._view.topics())
        self._target = self._view.latest(partitions)

    def latest(self, start: SourceOffsets, offsets_max: int | None) -> SourceOffsets:
        """Give the end of the next micro-batch; `start` itself when there is nothing new."""
        seen = self._view.look()
        self._tell_silent(seen)
        # What leaders that did not answer had before is not kept: the progress must not show stale ends.
        self.latest_seen = {one: listed.offset for one, listed in seen.latest.items()}
        self._watch.look(self.latest_seen)
        begin = self._begin(start, seen)
        available = self._up_to_output(begin, self._available(begin, seen))
        # A partition that cannot be read keeps its place in `begin`, so its end is its beginning.
        ends = begin | admit({one: begin[one] for one in available}, available, offsets_max)
        same_logs = not data_loss.other_topic_ids(start, seen.topics)
        # An `initial` start is always answered with another end, even without records:
        # Spark writes ends only, and the start has to be written down with one.
        if ends == start.offsets_next and same_logs and not start.initial:
            return start
        end = self._end(start, ends, seen)
        ranges = [OffsetRange(*one, begin[one], ends[one]) for one in ends if ends[one] > begin[one]]
        self._planned = (start, end, ranges)
        return end

    def ranges(self, start: SourceOffsets, end: SourceOffsets) -> list[OffsetRange]:
        """The ranges between two offsets, as they were planned; after a restart they are planned again."""
        # After a restart Spark asks for ranges of offsets that this process has not planned.
        if self._planned is not None and self._planned[:2] == (start, end):
            return self._planned[2]
        # The first micro-batch of a query that crashed: its start stands in its own end.
        if start.initial and end.start is not None:
            start = SourceOffsets(offsets_next=end.start, topic_ids=end.topic_ids)
        return self._replan(start, end)

    def _begin(self, start: SourceOffsets, seen: Seen) -> Offsets:
        """Where reading can go on in every partition that can be read, new ones included."""
        latest = {one: listed.offset for one, listed in seen.latest.items()}
        begin = self._survivors(start, seen.topics, latest)
        new = [one for one in seen.latest if one not in start.offsets_next and self._is_targeted(one)]
        return begin | self._new_starts(new)

    def _survivors(self, start: SourceOffsets, topics: Mapping[str, TopicInfo], latest: Offsets) -> Offsets:
        losses = data_loss.gone(start, topics)
        changed = data_loss.other_topic_ids(start, topics)
        there = set(start.offsets_next) - {loss.place for loss in losses}
        losses += data_loss.recreated(
            start, topics, self._view.earliest([one for one in there if one.topic in changed])
        )
        # Partitions that are gone or made again were dealt with above; offsets in another log mean nothing.
        losses += self._cuts(start, topics, there - {loss.place for loss in losses}, latest)
        self._report(losses)
        kept = {one: start.offsets_next[one] for one in sorted(there)}
        return kept | _resumed(losses)

    def _cuts(
        self, start: SourceOffsets, topics: Mapping[str, TopicInfo], places: set[TopicPartition], latest: Offsets
    ) -> list[Loss]:
        """Find truncated logs: by leader epoch, then by an end below the offset that was reached."""
        epochs = {one: epoch for one, epoch in data_loss.epochs_to_check(start, topics).items() if one in places}
        losses = data_loss.truncated(start, self._view.epoch_ends(epochs))
        left = places - {loss.place for loss in losses}
        below = {one: end for one, end in latest.items() if one in left and end < start.offsets_next[one]}
        # The last stable offset may be below an offset that was reached under read_uncommitted: no loss.
        return losses + data_loss.beyond(start.offsets_next, self._view.log_ends(below))

    def _new_starts(self, new: list[TopicPartition]) -> Offsets:
        # Not the latest: records that came before the partition was seen would never be read.
        earliest = self._view.earliest(new)
        if new:
            _log.info("new partitions, read from their start: %s", ", ".join(map(str, new)))
        self._report(data_loss.late_starts(earliest))
        return earliest

    def _available(self, begin: Offsets, seen: Seen) -> Offsets:
        found = {one: listed.offset for one, listed in seen.latest.items() if one in begin}
        if self._target is None:
            return found
        # A partition that appeared after AvailableNow began has no target and waits for the next start.
        return {one: min(offset, self._target[one]) for one, offset in found.items() if one in self._target}

    def _up_to_output(self, begin: Offsets, available: Offsets) -> Offsets:
        """End at the end of the output as long as it is ahead of the stream: after a checkpoint was rolled back.

        Why: the sink can leave out a micro-batch that lies wholly in the output, but not half of one.
        """
        if self._is_level:
            return available
        # Asked once: from here on this query alone moves the ledger.
        if self._held is None:
            self._held = self._view.ledger_of_running(self._options.pipeline or "")
        held = self._held
        self._is_level = not any(offset < held.get(one, 0) for one, offset in begin.items())
        if self._is_level:
            return available
        return {one: max(begin[one], min(offset, held[one])) for one, offset in available.items() if one in held}

    def _is_targeted(self, one: TopicPartition) -> bool:
        return self._target is None or one in self._target

    def _end(self, start: SourceOffsets, ends: Offsets, seen: Seen) -> SourceOffsets:
        epochs = {one: epoch for one, epoch in start.leader_epochs.items() if one in ends}
        for one, listed in seen.latest.items():
            # Only where something is read is the epoch noted: it must be the one in which the offset was seen.
            if listed.leader_epoch >= 0 and one in ends and ends[one] != start.offsets_next.get(one):
                epochs[one] = listed.leader_epoch
        return SourceOffsets(
            offsets_next=ends,
            topic_ids=topic_ids(seen.topics, ends),
            leader_epochs=epochs,
            start=start.offsets_next if start.initial else None,
        )

    def _replan(self, start: SourceOffsets, end: SourceOffsets) -> list[OffsetRange]:
        topics = self._view.topics()
        # Without the ends of logs, which are held against the end of the range below.
        begin = self._survivors(start, topics, {})
        losses = [one for one in data_loss.gone(end, topics) if one.place not in start.offsets_next]
        changed = data_loss.other_topic_ids(end, topics)
        lost = {loss.place for loss in data_loss.gone(end, topics)} | {
            one for one in end.offsets_next if one.topic in changed
        }
        there = [one for one in end.offsets_next if one not in lost]
        cut = data_loss.beyond(end.offsets_next, self._view.log_ends(there))
        self._report(losses + cut)
        begin |= self._new_starts([one for one in there if one not in begin])
        ends = {one: end.offsets_next[one] for one in there} | _resumed(cut)
        return [OffsetRange(*one, begin[one], ends[one]) for one in ends if ends[one] > begin[one]]

    def _report(self, losses: list[Loss]) -> None:
        data_loss.report(losses, fail=self._options.fail_on_data_loss)

    def _tell_silent(self, seen: Seen) -> None:
        # One silent leader is waited for, silence of all is an error: the query would look idle for ever.
        if seen.silent and not seen.latest:
            place, why = next(iter(seen.silent.items()))
            raise ConnectionFailure(f"no leader of any partition answers; {place}: {why}")
        for place in sorted(set(seen.silent) - self._silent):
            _log.warning("%s waits, the others go on: %s", place, seen.silent[place])
        self._silent = frozenset(seen.silent)


def _resumed(losses: list[Loss]) -> Offsets:
    return {loss.place: loss.offset_resume for loss in losses if loss.offset_resume is not None}
