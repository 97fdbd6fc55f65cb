"""Write the vectors: run the Java classes and librdkafka over the cases, keep their bytes and the expected values.

    python -m tests.vectors.generate

The expected records are what was asked for, checked here against what the Java classes read back; the expected header
fields are what the Java classes read. Nothing of semel's own codec takes part. The same versions of the two programs
write the same bytes again.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from confluent_kafka import Producer, libversion

from tests.support.java import CLIENTS_VERSION, JavaProgram
from tests.vectors.capture import CaptureServer
from tests.vectors.cases import Json, b64, java_cases, librdkafka_cases, unpack

FOLDER = Path(__file__).resolve().parent / "data"
WAIT_S_MAX = 30
PARTITION_COUNTS = (1, 2, 3, 7, 12, 50, 1000)


def main() -> None:
    """Write every vector again."""
    FOLDER.mkdir(exist_ok=True)
    with JavaProgram("RecordBatches") as java:
        for name, batches in java_cases().items():
            answer = java.ask("write", batches=[plain_batch(batch) for batch in batches])
            asked = [batch.get("records") for batch in batches]
            keep(java, f"java_{name}", f"kafka-clients {CLIENTS_VERSION}", base64.b64decode(answer["bytes"]), asked)
        for name, (settings, batches_asked) in librdkafka_cases().items():
            sent = send(settings, batches_asked)
            keep(java, f"librdkafka_{name}", f"librdkafka {libversion()[0]}", sent, batches_asked)
        keep_murmur2(java)


def plain_batch(batch: Json) -> Json:
    """Spell out the large values for a reader that knows only base64."""
    if "records" not in batch:
        return batch
    return {**batch, "records": [{**one, "value": b64(unpack(one["value"]))} for one in batch["records"]]}


def keep(java: JavaProgram, name: str, writer: str, written: bytes, asked: Sequence[list[Json] | None]) -> None:
    """Store the bytes and the expected values; None stands for a marker, whose record is as Java read it."""
    answer = java.ask("read", bytes=b64(written))
    assert answer["unread_bytes"] == 0, name
    assert len(answer["batches"]) == len(asked), name
    batches = [expected_batch(read, wanted) for read, wanted in zip(answer["batches"], asked, strict=True)]
    (FOLDER / f"{name}.bin").write_bytes(written)
    write_json(FOLDER / f"{name}.json", {"writer": writer}, "batches", batches)


def expected_batch(read: Json, wanted: list[Json] | None) -> Json:
    """Take the header from Java and the records from the case, once both agree on the records."""
    if wanted is None:
        assert read["is_control"]
        return read
    assert len(wanted) == len(read["records"])
    pairs = zip(read["records"], wanted, strict=True)
    return {**read, "records": [expected_record(one, case, read["timestamp_type"]) for one, case in pairs]}


def expected_record(read: Json, case: Json, timestamp_type: str) -> Json:
    """Compare field by field; a record takes the log's time where the log stamps it."""
    assert unpack(read["key"]) == unpack(case["key"])
    assert unpack(read["value"]) == unpack(case["value"])
    assert read["headers"] == case["headers"]
    assert read["timestamp_ms"] == case["timestamp_ms"] or timestamp_type == "log_append_time"
    assert read["offset"] == case.get("offset", read["offset"])
    return {**read, "value": case["value"]}


def send(settings: Json, batches: Sequence[list[Json]]) -> bytes:
    """Let librdkafka write the batches, each flushed before the next, and return what went over the connection."""
    with CaptureServer() as server:
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "linger.ms": 10_000, **settings})
        if "transactional.id" in settings:
            producer.init_transactions(WAIT_S_MAX)
            producer.begin_transaction()
        for records in batches:
            send_records(producer, records)
        if "transactional.id" in settings:
            producer.commit_transaction(WAIT_S_MAX)
        del producer
        return b"".join(kept.batches for kept in server.record_sets)


def send_records(producer: Producer, records: Sequence[Json]) -> None:
    """Send the records of one batch and wait until they were taken."""
    for one in records:
        headers: list[tuple[str, str | bytes | None]] = [(name, unpack(content)) for name, content in one["headers"]]
        producer.produce(
            "vectors",
            partition=0,
            key=unpack(one["key"]),
            value=unpack(one["value"]),
            timestamp=one["timestamp_ms"],
            headers=headers,
        )
    assert producer.flush(WAIT_S_MAX) == 0


def keep_murmur2(java: JavaProgram) -> None:
    """Store Java's hash and partition of keys of every short length, of text, and of random bytes."""
    random = Random(2)
    keys = [bytes(range(0x7A, 0x7A + size)) for size in range(21)]
    keys += [word.encode() for word in ("order-1", "größe", "温度", "😀", "a" * 100)]
    keys += [b"\x00", b"\x00\x00\x00\x00", b"\xff" * 7, *(random.randbytes(random.randrange(1, 64)) for _ in range(60))]
    answers = java.ask("murmur2", keys=[b64(key) for key in keys], partition_counts=PARTITION_COUNTS)
    write_json(FOLDER / "murmur2.json", {"writer": f"kafka-clients {CLIENTS_VERSION}"}, "keys", answers)


def write_json(path: Path, head: Mapping[str, str], name: str, items: Sequence[Json]) -> None:
    """Write one line per item of the list, and one per record in it, so that a change reads well as a diff."""
    lines = ",\n".join(json.dumps(item, ensure_ascii=False).replace('{"offset"', '\n  {"offset"') for item in items)
    opening = json.dumps(dict(head))[:-1]
    path.write_text(f'{opening}, "{name}": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
