"""A program that is right: bills and offsets are committed in one transaction, and whatever goes wrong ends it."""

import os

import semel
from semel import Guarantee

SETTINGS = {"group.instance.id": "billing", "fetch.wait.max.ms": 20, "log_level": 0}


def main() -> None:
    bootstrap, name = os.environ["SEMEL_BOOTSTRAP_SERVERS"], "billing"
    with (
        semel.Producer(
            bootstrap,
            guarantee=Guarantee.EXACTLY_ONCE,
            transactional_id=name,
            settings={"linger.ms": 0, "log_level": 0},
        ) as producer,
        semel.Consumer(
            bootstrap,
            [os.environ["SEMEL_INPUT_TOPIC"]],
            group=name,
            guarantee=Guarantee.EXACTLY_ONCE,
            settings=SETTINGS,
        ) as consumer,
    ):
        for batch in consumer.batches(records_max=10):
            with producer.transaction() as tx:
                for order in batch:
                    tx.send(os.environ["SEMEL_OUTPUT_TOPIC"], b"billed " + (order.value or b""))
                tx.commit_offsets(consumer)


if __name__ == "__main__":
    main()
