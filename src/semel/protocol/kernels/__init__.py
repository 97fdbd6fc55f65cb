"""Compiled kernels behind `columns.py`; importing a module here compiles it, or loads it from the cache.

`preload()` does so for all of them, for processes that fork workers later.
"""

from importlib import import_module

_MODULES = ("check", "decode", "encode", "headers", "partition")


def preload() -> None:
    """Compile or load every kernel now."""
    for name in _MODULES:
        # A child that is forked afterwards has the machine code already, and neither compiles nor loads it.
        import_module(f"semel.protocol.kernels.{name}")
