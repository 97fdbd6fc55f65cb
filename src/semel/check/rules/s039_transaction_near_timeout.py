"""S039: a transaction is not about to be aborted by its timeout."""

from semel.check.facts import Facts, known
from semel.check.rule import About, Judged, Rule
from semel.guarantee import Guarantee

# A fifth of the time is left to look at the producer.
PART_MAX = 0.8


def _judge(facts: Facts, name: str) -> Judged:
    info = known(facts.transactions[name])
    if info is None:
        return Judged(held=True, found="the coordinator does not know this id yet")
    if info.started_ms < 0 or not info.partitions:
        return Judged(held=True, found=f"state {info.state}, nothing open")
    # The coordinator's clock may be ahead of this machine's.
    open_ms = max(0, facts.now_ms - info.started_ms)
    return Judged(
        held=open_ms < PART_MAX * info.timeout_ms,
        found=f"state {info.state}, open for {open_ms} of {info.timeout_ms} ms",
        fix="look whether its producer still lives; commit more often, or raise transaction.timeout.ms",
    )


RULE = Rule(
    id="S039",
    title="a transaction is not about to be aborted by its timeout",
    about=About.TRANSACTION,
    requires=f"open for less than {PART_MAX:.0%} of its timeout",
    anomalies=frozenset(),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="At its timeout the coordinator aborts the transaction and fences the producer. Until then every "
    "read_committed reader of its partitions waits.",
    fault="a producer stands still with its transaction open",
    shown_by="",
    sources="KIP-98; KIP-664",
    subjects=lambda facts: list(facts.transactions),
    judge=_judge,
)
