"""The settings of topics that would make broken rules hold, and how to apply them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from semel.check.rule import About, Finding, Standing
from semel.clients.setting_defaults import Library
from semel.clients.setting_names import SPARK_PREFIX
from semel.clients.setting_vocabulary import is_known
from semel.wire.admin import set_topic_settings
from semel.wire.cluster import WireCluster

APPLY_MS_MAX = 30_000


def plan_repairs(findings: Iterable[Finding]) -> dict[str, dict[str, str]]:
    """Topics with the settings to change; what only a person can decide is not among them."""
    wanted: dict[str, dict[str, str]] = {}
    for finding in findings:
        kind, _, name = finding.subject.partition(" ")
        # A warning is repaired too. What is ignored or in the baseline was accepted by somebody and stays as it is.
        if kind == About.TOPIC and finding.alter and finding.standing is Standing.COUNTED:
            wanted.setdefault(name, {}).update(finding.alter)
    return wanted


def apply_repairs(cluster: WireCluster, repairs: Mapping[str, Mapping[str, str]]) -> None:
    """Change the settings, topic by topic; the first refusal ends it, with the topic's name."""
    for topic, settings in repairs.items():
        set_topic_settings(cluster, topic, settings, cluster.deadline(APPLY_MS_MAX))


def as_command(connect: str, topic: str, settings: Mapping[str, str]) -> str:
    """The same change as a command of Apache Kafka, for who would rather type it; `connect` as in `Facts`."""
    pairs = ",".join(f"{name}={_bracketed(value)}" for name, value in settings.items())
    options = f"--entity-type topics --entity-name {shlex.quote(topic)} --add-config {shlex.quote(pairs)}"
    return f"kafka-configs.sh {connect} --alter {options}"


def connect_options(bootstrap: str, command_config: str | None) -> str:
    """What every command of Apache Kafka needs to reach the cluster; secrets stay in the file."""
    given = ["--bootstrap-server", bootstrap, *(["--command-config", command_config] if command_config else [])]
    return shlex.join(given)


def names_only_semel_reads(written: Mapping[str, object]) -> list[str]:
    """The names in a file of connection settings that Apache Kafka's commands do not know: librdkafka's."""
    java = Library.parse("java")
    return sorted(name for name in written if not is_known(name.removeprefix(SPARK_PREFIX), java))


def _bracketed(value: str) -> str:
    """kafka-configs.sh takes a comma for the end of a setting unless the value is in brackets."""
    return f"[{value}]" if "," in value else value
