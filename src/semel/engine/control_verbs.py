"""What a running cluster can be asked to do over its control socket, and which arguments each verb needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from semel.engine import breaking
from semel.errors import ConfigError

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore

Told = Mapping[str, object] | None
Work = Callable[..., Awaitable[None] | Told]
Kinds = Mapping[str, type[object] | tuple[type[object], ...]]

BROKER: Kinds = {"broker": int}


def broker_states(core: ClusterCore) -> dict[str, object]:
    """Every broker of the cluster by its number: running, paused or killed."""
    found: dict[str, object] = {}
    for broker_id in core.state.brokers:
        broker = core.brokers.get(broker_id)
        found[str(broker_id)] = "killed" if broker is None else "paused" if broker.pausing.is_paused else "running"
    return found


VERBS: Mapping[str, tuple[Work, Kinds]] = {
    "kill": (breaking.kill, BROKER),
    "restart": (lambda core, broker: core.restart(broker), BROKER),
    "pause": (lambda core, broker: core.pause(broker), BROKER),
    "resume": (lambda core, broker: core.resume(broker), BROKER),
    "split": (
        lambda core, source, target, one_way: core.cut(source, target, one_way=one_way),
        {"source": int, "target": int, "one_way": bool},
    ),
    "heal": (lambda core: core.heal(), {}),
    "move-leader": (
        lambda core, topic, partition, broker: core.move_leader(topic, partition, broker),
        {"topic": str, "partition": int, "broker": int},
    ),
    "kill-controller": (lambda core: core.kill_controller(), {}),
    "slow-disk": (
        breaking.slow_disk,
        {"broker": int, "sync_ms": (int, float)},
    ),
    "fill-disk": (
        breaking.fill_disk,
        {"broker": int, "room_bytes": (int, type(None))},
    ),
    "jump-clock": (breaking.jump_clock, {"broker": int, "ms": int}),
    "broker-states": (broker_states, {}),
}


async def do(core: ClusterCore, verb: object, arguments: object) -> Told:
    """Do what was asked, or raise ConfigError when it makes no sense; returns what there is to tell."""
    if not isinstance(verb, str) or verb not in VERBS:
        raise ConfigError(f"a cluster cannot {verb!r}", you_want=", ".join(VERBS))
    work, kinds = VERBS[verb]
    result = work(core, *_checked(verb, arguments, kinds))
    # Some verbs are done when they return, others have to wait for a port or a log.
    if result is None or isinstance(result, Mapping):
        return result
    await result
    return None


def _checked(verb: str, arguments: object, kinds: Kinds) -> list[object]:
    # Exactly these: a misspelt name must not be passed over.
    if not isinstance(arguments, dict) or arguments.keys() != kinds.keys():
        raise ConfigError(f"{verb} needs exactly: {', '.join(kinds) or 'nothing'}")
    for name, kind in kinds.items():
        value = arguments[name]
        # True is an int in Python, and broker True would be broker 1.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ConfigError(f"{verb}: {name} cannot be {value!r}")
    return [arguments[name] for name in kinds]
