"""What rules about one number of a broker share."""

from collections.abc import Callable

from semel.check.facts import Facts, number
from semel.check.rule import Judged


def at_least(setting: str, least: Callable[[Facts], int]) -> Callable[[Facts, str], Judged]:
    """Judge a broker by whether this setting is large enough."""

    def judge(facts: Facts, broker: str) -> Judged:
        found, wanted = number(facts.brokers[int(broker)], setting), least(facts)
        return Judged(held=found >= wanted, found=f"{setting}={found}", fix=f"on the brokers: {setting}={wanted}")

    return judge
