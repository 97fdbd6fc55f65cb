"""Transactions over several partitions with three replicas: semel's embedded cluster beside Apache Kafka.

A Java producer (kafka-clients) writes one record to each of 1, 3 or 8 partitions, waits for all of them (flush) and
commits, and begins the next transaction at once, while the last one is still being completed. A figure is the median
of one round's transactions; a ratio is semel's over Apache Kafka's in the same round: median (smallest .. largest).
Less is better. `retries` counts the records that the client had to send again.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict
from functools import partial

from bench.measure import librdkafka
from bench.measure.rounds import Figures, Options, Samples, Spread, print_table, ratio, run_rounds, write_json
from bench.measure.servers import APACHE, EMBEDDED, EmbeddedServer, Servers, apache, started
from tests.support.java import JavaProgram

BROKERS = 3
HEAP_MB = 512
PARTITIONS = (1, 3, 8)
TRANSACTIONS = 60
QUICK_TRANSACTIONS = 5
RUN_MS_MAX = 180_000
RETRIES = "retries"
SERVERS: Servers = {
    EMBEDDED: partial(EmbeddedServer, BROKERS),
    APACHE: partial(apache, BROKERS, HEAP_MB),
}


def run_transactions(program: JavaProgram, bootstrap: str, transactions: int) -> Figures:
    """One producer for each number of partitions, each on a topic of its own."""
    figures: dict[str, float] = {}
    for partitions in PARTITIONS:
        with librdkafka.fresh_topic(bootstrap, BROKERS, partitions) as topic:
            times = program.ask(
                "time",
                bootstrap=bootstrap,
                topic=topic,
                transactional_id=topic,
                partitions=partitions,
                transactions=transactions,
                wait_ms_max=RUN_MS_MAX,
            )
        row = f"{partitions} partition{'s' if partitions > 1 else ''}"
        figures[f"flush, {row}"] = statistics.median(times["flush_ms"])
        figures[f"commit, {row}"] = statistics.median(times["commit_ms"])
        figures[f"{RETRIES}, {row}"] = times["retries"]
    return figures


def measure(options: Options) -> Samples:
    """Every row."""
    transactions = QUICK_TRANSACTIONS if options.quick else TRANSACTIONS
    with started(SERVERS) as bootstraps, JavaProgram("TransactionTimes") as program:
        return run_rounds(
            bootstraps,
            lambda who: run_transactions(program, bootstraps[who], transactions),
            options.rounds,
            label="transactions",
        )


def line(name: str, row: dict[str, list[float]]) -> list[str]:
    """A count has no ratio: it may be zero."""
    if name.startswith(RETRIES):
        return [name, "", *(f"{Spread.of(row[who]).median:.0f}" for who in (EMBEDDED, APACHE))]
    return [
        name,
        str(ratio(row[EMBEDDED], row[APACHE])),
        *(f"{Spread.of(row[who]).median:.1f} ms" for who in (EMBEDDED, APACHE)),
    ]


def main() -> None:
    """Measure and print."""
    options = Options.parse("Measure transactions over several partitions beside Apache Kafka.")
    samples = measure(options)
    print(f"semel over Apache Kafka, three brokers, three replicas, kafka-clients, p50 of a round, {options.note}")
    print_table(["", "ratio", f"{EMBEDDED} here", f"{APACHE} here"], [line(name, row) for name, row in samples.items()])
    results = [
        {
            "name": name,
            "ratio": None if name.startswith(RETRIES) else asdict(ratio(row[EMBEDDED], row[APACHE])),
            "figures": row,
        }
        for name, row in samples.items()
    ]
    write_json(options, "transactions", {"results": results})


if __name__ == "__main__":
    main()
