"""S033: committed offsets survive a broker."""

from semel.check.facts import OFFSETS_TOPIC
from semel.check.rule import About, Rule, Severity
from semel.check.rules.internal_topics import COPIES_MIN, IN_SYNC_MIN, InternalTopic
from semel.guarantee import Anomaly

_TOPIC = InternalTopic(
    name=OFFSETS_TOPIC,
    replication_setting="offsets.topic.replication.factor",
    in_sync_setting="min.insync.replicas",
    few_in_sync=Severity.WARNING,  # every cluster with Kafka's defaults has a minimum of one here
)

RULE = Rule(
    id="S033",
    title="committed offsets survive a broker",
    about=About.TOPIC,
    requires=f"replication factor {COPIES_MIN} or more, min.insync.replicas={IN_SYNC_MIN} or more",
    anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
    wrong="Positions of groups, and the ledgers of pipelines, are in this topic. Lost with a disk, consumers start at "
    "the beginning or the end (S009), and a pipeline cannot tell what it has committed.",
    fault="the broker that holds the group's offsets is killed and its disk is empty when it comes back",
    shown_by="src/semel/drill/damage/s033_offsets_topic.py",
    sources="Apache Kafka broker configuration: offsets.topic.replication.factor, min.insync.replicas",
    subjects=_TOPIC.subjects,
    judge=_TOPIC.judge,
)
