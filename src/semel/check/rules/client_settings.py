"""S001 to S012: the table of client settings, as rules over the clients that `check` was given."""

from __future__ import annotations

from semel.check.facts import Facts
from semel.check.rule import About, Judged, Rule
from semel.clients.settings_rules import CLIENT_RULES, ClientRule

SHOWN_BY = {
    "S001": "src/semel/drill/damage/s001_acks.py",
    "S002": "src/semel/drill/damage/s002_retries.py",
    "S003": "src/semel/drill/damage/s003_idempotence.py",
    "S006": "src/semel/drill/damage/s006_transactional_id.py",
    "S007": "src/semel/drill/damage/s007_auto_commit.py",
    "S008": "src/semel/drill/damage/s008_isolation.py",
    "S009": "src/semel/drill/damage/s009_offset_reset.py",
    "S010": "src/semel/drill/damage/s010_delivery_timeout.py",
    "S012": "src/semel/drill/damage/s012_group_id.py",
}


def client_rules() -> list[Rule]:
    """The table's rows."""
    return [_as_rule(row) for row in CLIENT_RULES]


def _as_rule(row: ClientRule) -> Rule:
    def subjects(facts: Facts) -> list[str]:
        return [one.name for one in facts.clients if row.applies(one.settings, facts.guarantee)]

    def judge(facts: Facts, name: str) -> Judged:
        settings = facts.client(name).settings
        return Judged(
            held=row.keeps(settings, facts.guarantee),
            found=", ".join(settings.shown(each) for each in row.settings),
            fix=f"in {name}: {row.requires[facts.guarantee]}",
        )

    return Rule(
        id=row.id,
        title=row.title,
        about=About.CLIENT,
        requires="; ".join(dict.fromkeys(row.requires.values())),
        requires_of=lambda facts: row.requires[facts.guarantee],
        anomalies=row.anomalies,
        guarantees=frozenset(row.requires),
        wrong=row.wrong,
        fault=row.fault,
        shown_by=SHOWN_BY.get(row.id, ""),
        sources=row.sources,
        subjects=subjects,
        judge=judge,
        settings=row.settings,
    )
