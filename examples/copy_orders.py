"""Consume, process, produce, exactly once: start it as often as you like, kill it whenever you like.

semel cluster start --topic orders:3 --topic billed:3
python examples/copy_orders.py localhost:9092
"""

import sys

import semel
from semel import Guarantee


def bill(order: bytes | None) -> bytes:
    """The work."""
    return b"billed " + (order or b"")


def main(bootstrap: str) -> None:
    """Every order is billed once: the bills and the offsets of their orders are committed together."""
    with (
        semel.Producer(bootstrap, guarantee=Guarantee.EXACTLY_ONCE, transactional_id="billing") as producer,
        semel.Consumer(bootstrap, ["orders"], group="billing", guarantee=Guarantee.EXACTLY_ONCE) as consumer,
    ):
        for batch in consumer.batches():
            with producer.transaction() as tx:
                for order in batch:
                    tx.send("billed", bill(order.value), key=order.key)
                tx.commit_offsets(consumer)


if __name__ == "__main__":
    main(sys.argv[1])
