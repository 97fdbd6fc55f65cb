"""Every rule: `RULES`, in the order of their ids. A rule is a file here that defines `RULE`.

S001 to S012 are about client settings; their table is `semel.clients.settings_rules`, since the clients obey it too.
"""

from __future__ import annotations

import importlib
import pkgutil
from difflib import get_close_matches

from semel.check.rule import Rule
from semel.check.rules.client_settings import client_rules
from semel.errors import ConfigError

WORD_LENGTH_MIN = 4


def _own_rules() -> list[Rule]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith("s0"))
    rules: list[Rule] = [importlib.import_module(f"{__name__}.{name}").RULE for name in names]
    return rules


RULES: tuple[Rule, ...] = (*client_rules(), *_own_rules())


def find_rule(text: str) -> Rule:
    """Find a rule by its id, in any case, with or without leading zeros."""
    digits = text.strip().upper().removeprefix("S")
    if digits.isdecimal():
        for rule in RULES:
            if int(rule.id[1:]) == int(digits):
                return rule
    near = nearest_rule(text)
    raise ConfigError(
        f"there is no rule {text!r}",
        you_want=f"{RULES[0].id} to {RULES[-1].id}" + (f"; perhaps {near.id}, {near.title}" if near else ""),
        next_command="semel explain",
    )


def nearest_rule(text: str) -> Rule | None:
    """The rule that was perhaps meant: by a word of what it requires, or by an id that looks alike."""
    word = text.strip().lower()
    if len(word) >= WORD_LENGTH_MIN:
        for rule in RULES:
            if word in f"{rule.requires} {rule.title}".lower():
                return rule
    close = get_close_matches(word.upper(), [rule.id for rule in RULES], n=1, cutoff=0.5)
    return find_rule(close[0]) if close else None
