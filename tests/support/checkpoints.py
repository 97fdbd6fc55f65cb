"""Checkpoint folders as Spark 4.2 writes them, made without Spark: for whoever reads or moves one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from semel.spark.offsets import SourceOffsets
from semel.wire.topology import TopicPartition

QUERY = "15a03a45-3a5b-408b-aa7f-146577dda60b"
META = (
    '{"batchWatermarkMs":0,"batchTimestampMs":1794824708632,"conf":{"spark.sql.streaming.stateStore.providerClass":'
    '"org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",'
    '"spark.sql.streaming.multipleWatermarkPolicy":"min","spark.sql.shuffle.partitions":"200"}}'
)
DONE = 'v1\n{"nextBatchWatermarkMs":0}'
Offsets = Mapping[TopicPartition, int]


def kafka_line(offsets: Offsets) -> str:
    """A source's line as Spark's own Kafka source writes it."""
    nested: dict[str, dict[str, int]] = {}
    for place, offset in sorted(offsets.items()):
        nested.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(nested, separators=(",", ":"))


def semel_line(offsets: Offsets, ids: Mapping[str, str], start: Offsets | None = None) -> str:
    """A source's line as semel's source writes it."""
    epochs = dict.fromkeys(offsets, 0)
    given = SourceOffsets(
        offsets_next=dict(offsets),
        topic_ids=dict(ids),
        leader_epochs=epochs,
        start=None if start is None else dict(start),
    )
    return json.dumps(given.encode())


def write_checkpoint(
    folder: Path,
    entries: Sequence[str | Sequence[str]],
    *,
    committed: int | None,
    pipeline: str = "p",
    version: str = "v1",
    query_id: str = QUERY,
    first: int = 0,
) -> Path:
    """One entry for each micro-batch, from `first` on; those up to `committed` are done. Checksums lie beside them."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": query_id}))
    if pipeline:
        (folder / "semel-pipeline").write_text(pipeline)
    for number, given in enumerate(entries, first):
        lines = [given] if isinstance(given, str) else given
        named = lines if version == "v1" else [f"{place}:{line}" for place, line in enumerate(lines)]
        _write(folder / "offsets" / str(number), "\n".join([version, META, *named]))
        if committed is not None and number <= committed:
            _write(folder / "commits" / str(number), DONE)
    return folder


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0\0\0\2\0 of what stood there")
