"""S046: offsets are kept where the guarantee says; under exactly once, with the results."""

from semel.check.facts import ClientFacts, Facts
from semel.check.rule import About, Judged, Rule
from semel.clients.setting_names import Role
from semel.clients.settings_rules import OFFSETS_RULE
from semel.guarantee import Guarantee


def _producers(facts: Facts) -> list[ClientFacts]:
    return [client for client in facts.clients if Role.PRODUCER in client.settings.roles]


def _subjects(facts: Facts) -> list[str]:
    """Consumers beside a producer: what a consumer alone does with its records no setting tells."""
    if facts.guarantee is not Guarantee.EXACTLY_ONCE or not _producers(facts):
        return []
    return [client.name for client in facts.clients if Role.CONSUMER in client.settings.roles]


def _judge(facts: Facts, name: str) -> Judged:
    # Of any producer of the files: which of them belongs to this consumer no setting says.
    ids = [client.settings.text("transactional.id") for client in _producers(facts)]
    found = ", ".join(f"transactional.id={one}" for one in ids if one)
    return Judged(
        held=bool(found),
        found=found or "no producer with a transaction that the offsets could be in",
        fix=f"beside {name}: a producer with a transactional.id, and sendOffsetsToTransaction in each transaction",
    )


RULE = Rule(
    id=OFFSETS_RULE.id,
    title=OFFSETS_RULE.title,
    about=About.CLIENT,
    requires="; ".join(OFFSETS_RULE.requires.values()),
    requires_of=lambda facts: OFFSETS_RULE.requires[facts.guarantee],
    anomalies=OFFSETS_RULE.anomalies,
    guarantees=frozenset(OFFSETS_RULE.requires),
    wrong=OFFSETS_RULE.wrong,
    fault=OFFSETS_RULE.fault,
    shown_by="src/semel/drill/damage/s046_offsets_apart.py",
    sources=OFFSETS_RULE.sources,
    subjects=_subjects,
    judge=_judge,
)
