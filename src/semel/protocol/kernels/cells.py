"""The kernels' view of one binary Arrow column under construction."""

from typing import NamedTuple

from semel.protocol.kernels.jit import types


class Cells(NamedTuple):
    """Addresses of its bytes, its Arrow offsets and its validity bits, which are preset to one."""

    data: int
    offsets: int
    valid: int


CELLS = types.NamedUniTuple(types.int64, 3, Cells)
