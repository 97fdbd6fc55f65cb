"""S042: sequence numbers are remembered for as long as a batch may be sent again."""

from semel.check.facts import Facts
from semel.check.rule import About, Rule, brokers
from semel.check.rules.broker_minimum import at_least
from semel.guarantee import Anomaly, Guarantee

SETTING = "producer.id.expiration.ms"
# A retry that is held up, by a paused process for one, must still find its producer known.
TIMES = 10


def _least(facts: Facts) -> int:
    """Ten times the longest delivery timeout of the clients; a Java client's, when none is known."""
    limits = [client.settings.number("delivery.timeout.ms") or 0 for client in facts.clients]
    return TIMES * max([120_000, *limits])


RULE = Rule(
    id="S042",
    title="sequence numbers are remembered for as long as a batch may be sent again",
    about=About.BROKER,
    requires=f"{SETTING} of {TIMES} x delivery.timeout.ms",
    anomalies=frozenset({Anomaly.DUPLICATED}),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="A broker forgets a producer that was silent for this long. A batch that is repeated after that is taken for "
    "a new one, and appended a second time.",
    fault="the response to a Produce request is dropped, and the retry comes after the producer was forgotten",
    shown_by="src/semel/drill/damage/s042_producer_id_expires.py",
    sources="KIP-854; Apache Kafka broker configuration: producer.id.expiration.ms",
    subjects=brokers,
    judge=at_least(SETTING, _least),
)
