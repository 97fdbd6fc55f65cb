"""Find the file of a rule, start its cluster, run it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Protocol, cast

import semel.drill.damage as home
from semel.drill.damage.records import QUICK, Damage
from semel.engine.embedded import Cluster
from semel.errors import ConfigError

BROKERS = 3


class RuleFile(Protocol):
    """What a file here has."""

    def run(self, cluster: Cluster, *, followed: bool) -> Damage:
        """Do it, with the rule followed or ignored."""


def rule_files() -> dict[str, RuleFile]:
    """The files by the ids of their rules."""
    names = sorted(module.name for module in pkgutil.iter_modules(home.__path__) if module.name.startswith("s0"))
    return {name[:4].upper(): cast(RuleFile, importlib.import_module(f"{home.__name__}.{name}")) for name in names}


def own_settings(file: RuleFile, *, followed: bool) -> Mapping[str, str] | None:
    """The broker settings that it needs for itself; None when any cluster with `QUICK` will do."""
    settings = getattr(file, "settings", None)
    return settings(followed=followed) if settings is not None else None


def run_rule(rule: str, *, followed: bool) -> Damage:
    """Start a cluster and run what a rule's file does."""
    found = rule_files().get(rule)
    if found is None:
        raise ConfigError(f"there is no damage for {rule!r}", you_want=" | ".join(rule_files()))
    own = own_settings(found, followed=followed) or {}
    with Cluster(brokers=BROKERS, config={**QUICK, **own}) as cluster:
        return found.run(cluster, followed=followed)
