"""S044: producers of one topic put a key into the same partition."""

from semel.check.facts import ClientFacts, Facts
from semel.check.rule import About, Judged, Rule
from semel.clients.setting_names import Role
from semel.guarantee import Anomaly

# Other names of the Java clients' way.
MURMUR2 = frozenset({"murmur2", "murmur2_random", "defaultpartitioner", "builtinpartitioner", ""})


def _writing(facts: Facts) -> list[ClientFacts]:
    return [client for client in facts.clients if Role.PRODUCER in client.settings.roles]


def _way(client: ClientFacts) -> str:
    # Java has the class with its package, librdkafka a word.
    text = client.settings.text("partitioner.class").rpartition(".")[2].lower()
    return "murmur2" if text in MURMUR2 else text


def _subjects(facts: Facts) -> list[str]:
    writing = _writing(facts)
    return [client.name for client in writing] if len(writing) > 1 else []


def _judge(facts: Facts, name: str) -> Judged:
    own = _way(facts.client(name))
    others = [one.name for one in _writing(facts) if _way(one) != own]
    return Judged(
        held=not others,
        found=f"{own}, others differ: {', '.join(others)}" if others else own,
        fix="partitioner=murmur2_random in librdkafka, or the same partitioner everywhere",
    )


RULE = Rule(
    id="S044",
    title="producers of one topic put a key into the same partition",
    about=About.CLIENT,
    requires="one partitioner for all producers",
    anomalies=frozenset({Anomaly.REORDERED}),
    wrong="Libraries hash keys differently: Java uses murmur2, librdkafka CRC-32, sarama FNV-1a. Records of one key "
    "then lie in two partitions, and nobody can say which came first.",
    fault="two producers of different libraries write the same key",
    shown_by="",
    sources="librdkafka configuration: partitioner; Java DefaultPartitioner; sarama NewHashPartitioner",
    subjects=_subjects,
    judge=_judge,
)
