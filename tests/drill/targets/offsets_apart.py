"""A program whose offsets and results are apart: `commit-first` loses in a crash between them, `write-first` doubles.

In its first life it stands still behind the n-th record that it writes, so that it is certainly killed in the middle.
"""

import os
import signal
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer

LIVED = Path("lived")  # in the folder of the target's file
COMMITS_MAX, PAUSE_S = 100, 0.1


def commit(consumer: Consumer) -> None:
    """Try again while the group's coordinator is away: its fault is not what this program is about."""
    for left in reversed(range(COMMITS_MAX)):
        try:
            consumer.commit(asynchronous=False)
        except KafkaException:
            if not left:
                raise
            time.sleep(PAUSE_S)
        else:
            return


def main(order: str, stands_still_at: int) -> None:
    bootstrap = os.environ["SEMEL_BOOTSTRAP_SERVERS"]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            "group.instance.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0})
    is_first, written = not LIVED.exists(), 0
    LIVED.touch()

    def write(records: list[Message]) -> None:
        nonlocal written
        for record in records:
            producer.produce(os.environ["SEMEL_OUTPUT_TOPIC"], b"billed " + (record.value() or b""))
            producer.flush()
            written += 1
            if is_first and written == stands_still_at:
                signal.pause()

    consumer.subscribe([os.environ["SEMEL_INPUT_TOPIC"]])
    while True:
        records: list[Message] = []
        while more := [one for one in consumer.consume(100, 0.5) if one.error() is None]:
            records += more  # one large batch, and not by chance two
        if records and order == "commit-first":
            commit(consumer)
            write(records)
        elif records:
            write(records)
            commit(consumer)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
