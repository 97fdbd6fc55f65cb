"""cramjam, imported on first use: most brokers never look inside a compressed batch.

Why: this and the error of a full buffer are what the codecs and their framings share.
"""

from functools import cache
from types import ModuleType

from semel.errors import ProtocolError


class OutputFullError(ProtocolError):
    """The bytes do not fit the buffer that was offered."""


@cache
def cramjam() -> ModuleType:
    """The library."""
    import cramjam as library  # noqa: PLC0415  (lazy)

    return library
