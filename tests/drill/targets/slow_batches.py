"""A program that works in batches: the first one at once, each later one only when it has waited for long."""

import os
import time

from confluent_kafka import Consumer, Message, Producer

HOLD_S = 6.0


def main() -> None:
    bootstrap = os.environ["SEMEL_BOOTSTRAP_SERVERS"]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    consumer.subscribe([os.environ["SEMEL_INPUT_TOPIC"]])
    hold_s = 1.0
    while True:
        records: list[Message] = []
        begun: float | None = None
        while begun is None or time.monotonic() - begun < hold_s:
            if more := [one for one in consumer.consume(100, 0.2) if one.error() is None]:
                records += more
                begun = begun or time.monotonic()
        for record in records:
            producer.produce(os.environ["SEMEL_OUTPUT_TOPIC"], record.value())
        producer.flush()
        hold_s = HOLD_S


if __name__ == "__main__":
    main()
