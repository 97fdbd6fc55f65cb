"""S041: a late write cannot open a transaction that has ended."""

from semel.check.facts import Facts, setting
from semel.check.rule import About, Judged, Rule, brokers
from semel.guarantee import Guarantee

SETTING = "transaction.partition.verification.enable"


def _judge(facts: Facts, broker: str) -> Judged:
    text = setting(facts.brokers[int(broker)], SETTING)
    return Judged(held=text.lower() == "true", found=f"{SETTING}={text}", fix=f"on the brokers: {SETTING}=true")


RULE = Rule(
    id="S041",
    title="a late write cannot open a transaction that has ended",
    about=About.BROKER,
    requires=f"{SETTING}=true",
    anomalies=frozenset(),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="A Produce request that was delayed arrives after its transaction ended. Unless the leader asks the "
    "coordinator, it opens a transaction that nobody will end, and read_committed readers stop there.",
    fault="a transactional Produce request is delayed past the end of its transaction",
    shown_by="",
    sources="KIP-890, part 1",
    subjects=brokers,
    judge=_judge,
)
