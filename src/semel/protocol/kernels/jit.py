"""The compiler's names, for kernels: `kernel` compiles at once and caches; `inlined` and `called` become part of it.

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
_llvm: Any = import_module("llvmlite.binding")


def cpu_has(feature: str) -> bool:
    """Whether kernels may use this feature of the CPU, by LLVM's name; false where numba compiles for another one."""
    if config.CPU_NAME or config.CPU_FEATURES:
        return False
    return bool(_llvm.get_host_cpu_features().get(feature, False))


def intrinsic(generator: Function) -> Any:
    """Define a piece of machine code that kernels call like a function."""
    return import_module("numba.extending").intrinsic(generator)


def inlined(function: Function) -> Function:
    """Compile into each place that calls it, whatever its size: for what runs once a record."""
    return cast(Function, numba.njit(forceinline=True)(function))


def called(function: Function) -> Function:
    """Compile as part of the kernels that call it, as a function of its own: for what is seldom needed."""
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
