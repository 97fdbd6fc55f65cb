"""Three replicas, acks=all: semel's embedded cluster beside Apache Kafka, three brokers each.

semel's three brokers are one process on one core; Apache Kafka's are three JVMs that use all cores there are. A topic
has one partition on all three brokers. A ratio is semel's figure over Apache Kafka's in the same round: median
(smallest .. largest). For rates more is better, for times less. Clients: librdkafka, idempotent.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from bench.measure import librdkafka
from bench.measure.librdkafka import Sender, percentile
from bench.measure.rounds import Figures, Options, Samples, Spread, print_table, ratio, run_rounds, write_json
from bench.measure.servers import APACHE, EMBEDDED, EmbeddedServer, Servers, apache, started

BROKERS = 3
HEAP_MB = 512
RECORDS = {100: 400_000, 1024: 100_000}
SENDS = 1_000
QUICK_SHARE = 10
SERVERS: Servers = {
    EMBEDDED: partial(EmbeddedServer, BROKERS),
    APACHE: partial(apache, BROKERS, HEAP_MB),
}


def run_throughput(bootstrap: str, value_bytes: int, records: int) -> Figures:
    """Produce, then read it back."""
    with librdkafka.fresh_topic(bootstrap, BROKERS) as topic:
        return {
            f"produce {value_bytes} B": librdkafka.produce_rate(bootstrap, topic, value_bytes, records),
            f"consume {value_bytes} B": librdkafka.consume_rate(bootstrap, topic, records),
        }


def run_latency(bootstrap: str, sends: int) -> Figures:
    """Single sends, each waiting for the one before."""
    with librdkafka.fresh_topic(bootstrap, BROKERS) as topic:
        sender = Sender(bootstrap, topic, 100, enable_idempotence=True, linger_ms=0)
        sender.connect()
        times = sorted(librdkafka.send_latencies(sender, sends))
    return {"send latency, p50": percentile(times, 0.5), "send latency, p99": percentile(times, 0.99)}


def measure(options: Options) -> Samples:
    """Every row."""
    share = QUICK_SHARE if options.quick else 1
    samples: Samples = {}
    with started(SERVERS) as bootstraps:
        for size, full in RECORDS.items():
            run = partial(run_throughput, value_bytes=size, records=full // share)
            samples |= run_rounds(bootstraps, lambda who: run(bootstraps[who]), options.rounds, label=f"{size} B")  # noqa: B023
        sends = SENDS // share
        samples |= run_rounds(
            bootstraps, lambda who: run_latency(bootstraps[who], sends), options.rounds, label="latency"
        )
    return samples


def render(value: float) -> str:
    """A rate in thousands, a time in milliseconds."""
    return f"{value / 1000:.0f} k/s" if value > 1000 else f"{value * 1000:.2f} ms"


def main() -> None:
    """Measure and print."""
    options = Options.parse("Measure three replicas beside Apache Kafka.")
    samples = measure(options)
    print(f"semel over Apache Kafka, three brokers, three replicas, acks=all, {options.note}")
    lines = [
        [
            name,
            str(ratio(row[EMBEDDED], row[APACHE])),
            *(render(Spread.of(row[who]).median) for who in (EMBEDDED, APACHE)),
        ]
        for name, row in samples.items()
    ]
    print_table(["", "ratio", f"{EMBEDDED} here", f"{APACHE} here"], lines)
    results = [
        {"name": name, "ratio": asdict(ratio(row[EMBEDDED], row[APACHE])), "figures": row}
        for name, row in samples.items()
    ]
    write_json(options, "replicated", {"results": results})


if __name__ == "__main__":
    main()
