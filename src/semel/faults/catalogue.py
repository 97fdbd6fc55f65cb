"""Every fault by its name, and how one is read from text or from JSON."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Union, get_args, get_origin, get_type_hints

from semel.errors import ConfigError
from semel.faults.fault import Fault, Setting
from semel.faults.on_brokers import KillBroker, KillController, MoveLeader, PauseBroker, RestartBroker
from semel.faults.on_machines import ClockJump, FullDisk, LostSync, SlowDisk, SplitNetwork, TornWrite
from semel.faults.on_messages import CutResponse, DelayMessage, LoseRequest, LoseResponse, RefuseRequest

FAULTS: Mapping[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        KillBroker,
        RestartBroker,
        PauseBroker,
        SplitNetwork,
        MoveLeader,
        KillController,
        SlowDisk,
        FullDisk,
        TornWrite,
        LostSync,
        ClockJump,
        LoseRequest,
        LoseResponse,
        DelayMessage,
        RefuseRequest,
        CutResponse,
    )
}
_READERS: Mapping[object, Callable[[str], Setting]] = {
    # Not `bool`, for which every text but an empty one is true.
    bool: lambda text: {"true": True, "false": False}[text.lower()],
    int: int,
    float: float,
    str: str,
}


def parse(text: str) -> Fault:
    """Read `name setting=value …`, as faults are written."""
    name, *pairs = text.split() or [""]
    unreadable = [pair for pair in pairs if "=" not in pair]
    if unreadable:
        raise ConfigError(f"{unreadable[0]!r} is not a setting of a fault", you_wrote=text, you_want=example(name))
    return make(name, dict(pair.split("=", 1) for pair in pairs))


def make(name: str, settings: Mapping[str, Setting]) -> Fault:
    """Make the fault of this name; settings may be text."""
    kind = FAULTS.get(name)
    if kind is None:
        raise ConfigError(f"no fault is called {name!r}", you_want=", ".join(FAULTS))
    known = {one.name for one in fields(kind) if one.init}
    needed = {one.name for one in fields(kind) if one.init and one.default is MISSING}
    if unknown := sorted(set(settings) - known):
        raise ConfigError(f"{name} has no setting {unknown[0]!r}", you_want=example(name))
    if missing := sorted(needed - set(settings)):
        raise ConfigError(f"{name} needs {', '.join(missing)}", you_want=example(name))
    # Annotations are texts here (`from __future__ import annotations`): this makes types of them.
    hints = get_type_hints(kind)
    return kind(**{key: _read(name, key, value, hints[key]) for key, value in settings.items()})


def example(name: str) -> str:
    """Show how this fault is written."""
    kind = FAULTS.get(name)
    if kind is None:
        return ", ".join(FAULTS)
    shown = [f"{one.name}=…" if one.default is MISSING else f"[{one.name}=…]" for one in fields(kind) if one.init]
    return " ".join([name, *shown])


def _read(name: str, key: str, value: Setting, hint: object) -> Setting:
    # `int | None` and the like: the part that is not None says how to read it.
    allowed = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if value is None and type(None) in allowed:
        return None
    kind = next(one for one in allowed if one is not type(None))
    try:
        return _READERS[kind](str(value))
    except (ValueError, KeyError):
        raise ConfigError(f"{name}: {key} cannot be {value!r}", you_want=example(name)) from None
