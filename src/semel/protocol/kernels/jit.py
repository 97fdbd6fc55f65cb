"""The compiler's names, for kernels: `kernel` compiles at once and caches, `inlined` is compiled into its callers.

Why: numba and llvmlite are typed in parts only, so their names pass through here once, untyped, and decorated
     functions keep the signatures that they are written with.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, cast

import numba

from semel.protocol.kernels.cache import cache_folder

Function = TypeVar("Function", bound=Callable[..., object])

ir: Any = import_module("llvmlite.ir")
cgutils: Any = import_module("numba.core.cgutils")
types: Any = import_module("numba.core.types")
config: Any = import_module("numba.core.config")


def intrinsic(generator: Function) -> Any:
    """Define a piece of machine code that kernels call like a function."""
    return import_module("numba.extending").intrinsic(generator)


def inlined(function: Function) -> Function:
    """Compile as part of the kernels that call it."""
    return cast(Function, numba.njit(function))


def kernel(signature: Any) -> Callable[[Function], Function]:
    """Compile a function for one signature now, without the interpreter lock, from the cache where possible."""

    def compile_now(function: Function) -> Function:
        folder = cache_folder()
        if folder is None:
            return cast(Function, numba.njit(signature, nogil=True)(function))
        # Numba picks the folder while it decorates, so this setting touches no one else's functions.
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            return cast(Function, numba.njit(signature, nogil=True, cache=True)(function))
        finally:
            config.CACHE_DIR = before

    return compile_now
