"""confluent-kafka, imported when the first client is made; and what a fork does to its clients.

Why: librdkafka runs threads of its own. They do not exist in a forked child, so a client used there would hang for
     ever. Every client is therefore told of a fork, and refuses all work in the child.
"""

from __future__ import annotations

import ctypes
import logging
import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol
from weakref import WeakSet

from semel.clients.interrupts import interrupts_put_off
from semel.errors import ConfigError, MissingExtraError, SemelError

log = logging.getLogger("semel.clients")


@cache
def confluent() -> ModuleType:
    """The library, or the command that installs it."""
    try:
        return import_module("confluent_kafka")
    except ImportError:
        raise MissingExtraError.of("clients", "a Producer or Consumer") from None


class Forkable(Protocol):
    """A client that must know when it is in another process than the one that made it."""

    def forked(self) -> None:
        """Refuse everything from now on."""


# Weak, so that a client which nobody uses any more is freed.
_alive: WeakSet[Forkable] = WeakSet()


def tell_of_forks(client: Forkable) -> None:
    """Call `client.forked()` in every child that this process forks."""
    _alive.add(client)


def _tell() -> None:
    for client in list(_alive):
        client.forked()


os.register_at_fork(after_in_child=_tell)


def never_free(client: object) -> None:
    """Keep a library object for ever: in a forked child its end would wait for threads that are not there."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))


def fork_refusal(what: str) -> SemelError:
    """What a client says in a forked child."""
    return ConfigError(
        f"this {what} was made in another process",
        you_want=f"make the {what} after the fork, in the process that uses it",
        because="its network threads stayed in the parent; here it would wait for ever",
    )


def open_refusal(what: str) -> SemelError:
    """What a client for asyncio says when it is opened twice."""
    return ConfigError(
        f"this {what} is open already",
        you_want=f"async with around all that uses it, once; or another {what} for the inner block",
        because="the first opening would be forgotten, and nobody would close it",
    )


def close_refusal(what: str) -> SemelError:
    """What a client says after its end."""
    return ConfigError(f"this {what} is closed", you_want=f"make another {what}")


def make(kind: str, settings: dict[str, object]) -> Any:
    """Make a librdkafka client; settings that it does not know are a ConfigError that names them."""
    library = confluent()
    module, _, name = kind.rpartition(".")
    place = import_module(f"{library.__name__}.{module}") if module else library
    try:
        # Ctrl-C inside the constructor comes out as a complaint about settings.
        with interrupts_put_off():
            return getattr(place, name)({"log_level": 3, "logger": log, **settings})
    except library.KafkaException as error:
        raise ConfigError(
            f"the {kind.lower()} cannot be made: {error.args[0].str()}",
            because="librdkafka does not take these settings",
        ) from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the {kind.lower()} cannot be made: {error}") from None
