"""semel's embedded broker beside Apache Kafka: throughput, latency and start, the same clients against both.

Each broker is one node in its own process; a topic has one partition and one replica; both serve in turns, and a ratio
is semel's figure over Apache Kafka's in the same round: median (smallest .. largest). For rates more is better, for
times less. Clients: librdkafka through confluent-kafka, and Apache Kafka's own measuring programs in Java.

"start" is the time from starting the process on an empty folder to the delivery report of a first record, with the
topic's creation in it; for Apache Kafka the formatting of its storage is in it too. That record is sent with acks=all
and without idempotence: before it asks for a producer id librdkafka waits for a timer of its own, up to half a second
on either broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial

from bench.measure import java_tools, latency, librdkafka
from bench.measure.rounds import Figures, Options, Samples, Spread, print_table, ratio, run_rounds, write_json
from bench.measure.servers import APACHE, EMBEDDED, SERVERS, started

RECORDS = {100: 1_000_000, 1024: 200_000}
QUICK_SHARE = 10
SENDS = 1_000
LATENCY_ROUNDS_FACTOR = 3  # a round takes half a second
PARTS = ("throughput", "latency", "start")
START_ROW = "start to first record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a row should reach: a bound for the ratio, or for semel's own seconds."""

    bound: float
    more_is_better: bool
    of_seconds: bool = False

    def __str__(self) -> str:
        """Write as the table does."""
        return f"{'>=' if self.more_is_better else '<'} {self.bound:g}{' s' if self.of_seconds else ''}"

    def is_met(self, row: Mapping[str, list[float]]) -> bool:
        """Judge by the median."""
        value = Spread.of(row[EMBEDDED]) if self.of_seconds else ratio(row[EMBEDDED], row[APACHE])
        return value.median >= self.bound if self.more_is_better else value.median < self.bound


LIBRDKAFKA_TARGET = Target(bound=0.8, more_is_better=True)
JAVA_PRODUCE_TARGET = Target(bound=0.5, more_is_better=True)
CONSUME_TARGET = Target(bound=0.8, more_is_better=True)
TARGETS = {
    **{f"produce {size} B, librdkafka": LIBRDKAFKA_TARGET for size in RECORDS},
    **{f"produce {size} B, Java": JAVA_PRODUCE_TARGET for size in RECORDS},
    **{f"consume {size} B, {client}": CONSUME_TARGET for size in RECORDS for client in ("librdkafka", "Java")},
    "send latency, p50": Target(bound=1.0, more_is_better=False),
    START_ROW: Target(bound=0.5, more_is_better=False, of_seconds=True),
}


def run_librdkafka(bootstrap: str, value_bytes: int, records: int) -> Figures:
    """Produce, then read it back."""
    with librdkafka.fresh_topic(bootstrap) as topic:
        return {
            f"produce {value_bytes} B, librdkafka": librdkafka.produce_rate(bootstrap, topic, value_bytes, records),
            f"consume {value_bytes} B, librdkafka": librdkafka.consume_rate(bootstrap, topic, records),
        }


def run_java(bootstrap: str, value_bytes: int, records: int) -> Figures:
    """Produce, then read it back."""
    with librdkafka.fresh_topic(bootstrap) as topic:
        produced = java_tools.produce_rate(bootstrap, topic, value_bytes, records)
        librdkafka.check_log_end(bootstrap, topic, records)
        consumed = java_tools.consume_rate(bootstrap, topic, records)
    return {f"produce {value_bytes} B, Java": produced, f"consume {value_bytes} B, Java": consumed}


def run_start(name: str) -> Figures:
    """Start a broker of this kind, create a topic, send one record."""
    began = time.perf_counter()
    server = SERVERS[name]()
    try:
        bootstrap = server.start().bootstrap
        with librdkafka.fresh_topic(bootstrap) as topic:
            sender = librdkafka.Sender(bootstrap, topic, 100, enable_idempotence=False, linger_ms=0)
            librdkafka.send_one(sender)
            taken = time.perf_counter() - began
            del sender
    finally:
        server.stop()
    return {START_ROW: taken}


def measure_throughput(options: Options, bootstraps: Mapping[str, str]) -> Samples:
    """Produce and consume, with both clients."""
    samples: Samples = {}

    def on_each(label: str, run: Callable[[str], Figures]) -> None:
        samples.update(run_rounds(bootstraps, lambda who: run(bootstraps[who]), options.rounds, label=label))

    for size, full in RECORDS.items():
        records = full // QUICK_SHARE if options.quick else full
        on_each(f"librdkafka, {size} B", partial(run_librdkafka, value_bytes=size, records=records))
        on_each(f"Java, {size} B", partial(run_java, value_bytes=size, records=records))
    return samples


def measure_latency(options: Options, bootstraps: Mapping[str, str]) -> Samples:
    """Single sends."""
    share = QUICK_SHARE if options.quick else 1
    return latency.measure(
        bootstraps,
        sends=SENDS // share,
        rounds=options.rounds * LATENCY_ROUNDS_FACTOR,
        warm_up_sends=latency.WARM_UP_SENDS // share,
    )


def measure(options: Options) -> Samples:
    """Every row that is wanted; starts come last, when nothing else runs."""
    samples: Samples = {}
    if options.only & {"throughput", "latency"}:
        with started() as bootstraps:
            if "throughput" in options.only:
                samples |= measure_throughput(options, bootstraps)
            if "latency" in options.only:
                samples |= measure_latency(options, bootstraps)
    if "start" in options.only:
        samples |= run_rounds(SERVERS, run_start, options.rounds, label="start")
    return samples


def render(value: float) -> str:
    """A rate in thousands, a time in milliseconds."""
    return f"{value / 1000:.0f} k/s" if value > 1000 else f"{value * 1000:.2f} ms"


def table_line(name: str, row: Mapping[str, list[float]]) -> list[str]:
    """One row with its verdict."""
    target = TARGETS.get(name)
    verdict = "" if target is None else "met" if target.is_met(row) else "missed"
    here = [render(Spread.of(row[who]).median) for who in (EMBEDDED, APACHE)]
    return [name, str(ratio(row[EMBEDDED], row[APACHE])), str(target or ""), verdict, *here]


def as_json(name: str, row: Mapping[str, list[float]]) -> dict[str, object]:
    """One row with every figure."""
    target = TARGETS.get(name)
    return {
        "name": name,
        "unit": "records/s" if name.startswith(("produce", "consume")) else "s",
        "ratio": asdict(ratio(row[EMBEDDED], row[APACHE])),
        "target": None if target is None else str(target),
        "met": None if target is None else target.is_met(row),
        "figures": dict(row),
    }


def main() -> None:
    """Measure and print."""
    options = Options.parse("Measure the embedded broker beside Apache Kafka.", PARTS)
    if "throughput" in options.only:
        java_tools.prepare()
    samples = measure(options)
    print(f"semel over Apache Kafka, {options.note}")
    lines = [table_line(name, row) for name, row in samples.items()]
    print_table(["", "ratio", "target", "verdict", f"{EMBEDDED} here", f"{APACHE} here"], lines)
    write_json(options, "broker", {"results": [as_json(name, row) for name, row in samples.items()]})


if __name__ == "__main__":
    main()
