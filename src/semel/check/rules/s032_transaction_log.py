"""S032: what the transaction coordinators know survives a broker."""

from semel.check.facts import TRANSACTIONS_TOPIC
from semel.check.rule import About, Rule
from semel.check.rules.internal_topics import COPIES_MIN, IN_SYNC_MIN, InternalTopic
from semel.guarantee import Anomaly, Guarantee

_TOPIC = InternalTopic(
    name=TRANSACTIONS_TOPIC,
    replication_setting="transaction.state.log.replication.factor",
    in_sync_setting="transaction.state.log.min.isr",
)

RULE = Rule(
    id="S032",
    title="what the transaction coordinators know survives a broker",
    about=About.TOPIC,
    requires=f"replication factor {COPIES_MIN} or more, min.insync.replicas={IN_SYNC_MIN} or more",
    anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="The outcome of every transaction and the producer epochs are in this topic. Lost with a disk, a transaction "
    "that was committed may stay half done, and an old owner is no longer fenced.",
    fault="the coordinator's broker is killed and its disk is empty when it comes back",
    shown_by="src/semel/drill/damage/s032_transaction_log.py",
    sources="Apache Kafka broker configuration: transaction.state.log.replication.factor, "
    "transaction.state.log.min.isr",
    subjects=_TOPIC.subjects,
    judge=_TOPIC.judge,
)
