"""The settings of topics that would make broken rules hold, and how to apply them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from semel.check.rule import About, Finding
from semel.wire.admin import set_topic_settings
from semel.wire.cluster import WireCluster

APPLY_MS_MAX = 30_000


def plan_repairs(findings: Iterable[Finding]) -> dict[str, dict[str, str]]:
    """Topics with the settings to change; what only a person can decide is not among them."""
    wanted: dict[str, dict[str, str]] = {}
    for finding in findings:
        kind, _, name = finding.subject.partition(" ")
        if kind == About.TOPIC and finding.alter:
            wanted.setdefault(name, {}).update(finding.alter)
    return wanted


def apply_repairs(cluster: WireCluster, repairs: Mapping[str, Mapping[str, str]]) -> None:
    """Change the settings, topic by topic; the first refusal ends it, with the topic's name."""
    for topic, settings in repairs.items():
        set_topic_settings(cluster, topic, settings, cluster.deadline(APPLY_MS_MAX))


def as_command(topic: str, settings: Mapping[str, str]) -> str:
    """The same change as a command of Apache Kafka, for who would rather type it."""
    pairs = ",".join(f"{name}={value}" for name, value in settings.items())
    return f"kafka-configs.sh --alter --topic {topic} --add-config {pairs}"
