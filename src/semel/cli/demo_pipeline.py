"""The pipeline of `semel demo`: from every order a payment and a shipment, two topics, one transaction.

    python -m semel.cli.demo_pipeline BOOTSTRAP GUARANTEE FOLDER [--orders-per-micro-batch N] [--stop-after NUMBER]

It is a program of its own because it is meant to be killed. After every step of a commit it prints the micro-batch's
number in this run and the step. With `--stop-after N` it waits, after the rows of its N-th micro-batch were written and
before they are committed, so that the process that started it can kill it.

Why: a driver that nobody owns any more would run on for ever; when stdin closes, its whole process group ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from semel.sinks.base import CommitStep, OnStep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS = "orders"
PAYMENTS = "payments"
SHIPMENTS = "shipments"
PIPELINE = "order-effects"
KILL_WAIT_S_MAX = 60.0
RUN_S_MAX = 120
ORDER_FIELDS = "id long, customer string, cents long"
# Quick to start rather than quick to run. A JVM that is killed would leave its performance file behind.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:-UsePerfData"


def start_spark(folder: str) -> SparkSession:
    """A local session that keeps all its files in one folder."""
    import semel.spark

    os.environ["SPARK_LAUNCHER_OPTS"] = "-XX:-UsePerfData"
    settings = {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"{JVM_OPTIONS} -Djava.io.tmpdir={folder}",
        "spark.local.dir": folder,
        # The working folder, by a short name: the path of a socket has little room.
        "spark.python.unix.domain.socket.dir": ".",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return semel.spark.session("semel demo", master="local[2]", config=settings)


def order_effects(orders: DataFrame) -> DataFrame:
    """Turn an order into two records: what is to be paid and what is to be shipped."""
    from pyspark.sql import functions as f

    order = f.from_json(f.col("value").cast("string"), ORDER_FIELDS)
    payment = f.struct(f.lit(PAYMENTS).alias("topic"), f.to_json(f.struct("order.id", "order.cents")).alias("value"))
    shipment = f.struct(f.lit(SHIPMENTS).alias("topic"), f.to_json(f.struct("order.id")).alias("value"))
    effects = orders.select(order.alias("order")).select("order", f.inline(f.array(payment, shipment)))
    return effects.select(f.col("order.customer").alias("key"), "topic", "value")


def main() -> int:
    """Run until every order has had its effect."""
    options = _options()
    threading.Thread(target=_end_with_owner, daemon=True).start()
    import semel

    spark = start_spark(options.folder)
    source = {
        "kafka.bootstrap.servers": options.bootstrap,
        "subscribe": ORDERS,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(options.orders_per_micro_batch),
    }
    query = semel.write_stream(
        order_effects(spark.readStream.format("semel").options(**source).load()),
        semel.KafkaSink(options.bootstrap, topics=[PAYMENTS, SHIPMENTS]),
        pipeline=PIPELINE,
        guarantee=options.guarantee,
        checkpoint=f"{options.folder}/checkpoint",
        trigger={"availableNow": True},
        on_step=_reporter(options.stop_after),
    )
    return 0 if query.awaitTermination(RUN_S_MAX) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("guarantee")
    parser.add_argument("folder")
    parser.add_argument("--orders-per-micro-batch", type=int, required=True)
    parser.add_argument("--stop-after", type=int, default=0)
    return parser.parse_args()


def _reporter(stop_after: int) -> OnStep:
    """Tell every step; wait to be killed between writing rows and committing them."""
    number = 0

    def report(step: CommitStep) -> None:
        nonlocal number
        # Every micro-batch begins with a look at the ledger; its id would go on counting after a restart.
        number += step is CommitStep.LEDGER_READ
        print(number, step, flush=True)
        if step is CommitStep.ROWS_WRITTEN and number == stop_after:
            # Not for ever: if nobody kills it, it commits, and the demo says that nothing was shown.
            threading.Event().wait(KILL_WAIT_S_MAX)

    return report


def _end_with_owner() -> None:
    os.read(sys.stdin.fileno(), 1)  # unbuffered: a lock held here would trouble Python when it ends
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
