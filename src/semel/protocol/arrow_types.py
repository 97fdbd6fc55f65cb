"""Names for Arrow and numpy types in annotations; at run time Arrow's classes take no parameters."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    ArrowArray = pa.Array[Any]
    ArrowColumn = pa.Array[Any] | pa.ChunkedArray[Any]
else:
    ArrowArray = pa.Array
    ArrowColumn = pa.Array | pa.ChunkedArray

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


def address_of(array: npt.NDArray[Any]) -> int:
    """Give kernels the place of an array's first item; the caller keeps the array alive."""
    return array.ctypes.data


def view_of(buffer: pa.Buffer) -> memoryview:
    """Offer Arrow's memory as unsigned bytes, without a copy; writable when Arrow says so."""
    return memoryview(buffer).cast("B") if buffer.size else memoryview(bytearray())


def buffer_of(array: npt.NDArray[Any]) -> pa.Buffer:
    """Offer an array's memory to Arrow, without a copy."""
    return pa.py_buffer(array.data)
