"""What `spark.read` reads: from a position to a position, both looked up once."""

from __future__ import annotations

from semel.spark import data_loss
from semel.spark.options import SourceOptions
from semel.spark.positions import AtLedger, AtOffsets, Edge, Position, check_found, resolve
from semel.spark.ranges import OffsetRange
from semel.spark.view import KafkaView, topic_ids
from semel.wire.topology import TopicPartition

Offsets = dict[TopicPartition, int]


def plan_batch(options: SourceOptions, view: KafkaView) -> tuple[list[OffsetRange], dict[str, str]]:
    """Look up both ends of every partition, and the ids of the topics; a range that ends before its start is empty."""
    topics = view.topics()
    partitions = options.subscription.select(topics)
    check_found(partitions, options.subscription.missing(topics), repr(options.subscription.pattern))
    starts = _resolved(options.starting or Edge.EARLIEST, partitions, options, view)
    ends = _resolved(options.ending, partitions, options, view)
    ranges = [OffsetRange(*one, starts[one], ends[one]) for one in partitions if ends[one] > starts[one]]
    return ranges, topic_ids(topics, partitions)


def _resolved(position: Position, partitions: list[TopicPartition], options: SourceOptions, view: KafkaView) -> Offsets:
    offsets = resolve(position, partitions, view)
    # Offsets of edges and times were found in the log, so they cannot lie behind its end.
    if not isinstance(position, AtOffsets | AtLedger):
        return offsets
    losses = data_loss.beyond(offsets, view.log_ends(partitions))
    data_loss.report(losses, fail=options.fail_on_data_loss)
    return offsets | {loss.place: loss.offset_resume for loss in losses if loss.offset_resume is not None}
