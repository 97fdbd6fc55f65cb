"""S031: the brokers allow transactions as long as the clients ask for."""

from semel.check.facts import Facts, number
from semel.check.rule import About, Judged, Rule
from semel.clients.setting_names import Role
from semel.guarantee import Guarantee

SETTING = "transaction.max.timeout.ms"
SINK_TIMEOUT_MS = 600_000  # what the Kafka sink asks for unless an option says otherwise


def _subjects(facts: Facts) -> list[str]:
    """Producers that have, or may have, a transactional id; queries whose sink is ours."""
    if not facts.brokers:
        return []
    writing = [client for client in facts.clients if Role.PRODUCER in client.settings.roles]
    owners = [
        client.name
        for client in writing
        if client.settings.why_unread("transactional.id") or client.settings.text("transactional.id")
    ]
    return [*owners, *(query.name for query in facts.queries if query.sink == "semel")]


def _asked_ms(facts: Facts, name: str) -> int:
    for client in facts.clients:
        if client.name == name:
            client.settings.text("transactional.id")  # whether there is one has to be known
            return client.settings.number("transaction.timeout.ms") or 0
    query = facts.query(name)
    return query.number("transaction_timeout_ms") or query.number("kafka.transaction.timeout.ms") or SINK_TIMEOUT_MS


def _judge(facts: Facts, name: str) -> Judged:
    asked_ms = _asked_ms(facts, name)
    allowed_ms = min(number(broker, SETTING) for broker in facts.brokers.values())
    return Judged(
        held=asked_ms <= allowed_ms,
        found=f"asks for {asked_ms}, {SETTING}={allowed_ms}",
        fix=f"in {name}: transaction.timeout.ms={allowed_ms}, or raise {SETTING} on the brokers",
    )


RULE = Rule(
    id="S031",
    title="the brokers allow transactions as long as the clients ask for",
    about=About.TRANSACTION,
    requires=f"transaction.timeout.ms of at most the brokers' {SETTING}",
    anomalies=frozenset(),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="The coordinator refuses the producer with INVALID_TRANSACTION_TIMEOUT: it never starts.",
    fault="none is needed: the first InitProducerId is refused",
    shown_by="",
    sources="KIP-98; Apache Kafka broker configuration: transaction.max.timeout.ms",
    settings=("transaction.timeout.ms", "transactional.id"),
    subjects=_subjects,
    judge=_judge,
)
