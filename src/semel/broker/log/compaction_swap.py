"""Putting compacted segments in the place of the originals so that a crash at any point loses nothing.

1 written   <base>.log.cleaned, synced     recovery drops it: nothing has changed yet
2 chosen    renamed to <base>.log.swap     recovery goes on from here: the originals may be gone already
3 replaced  originals removed
4 done      renamed to <base>.log
"""

from pathlib import Path

from semel.broker.log.files import (
    CLEANED,
    DELETED,
    INDEX_SUFFIXES,
    LOG,
    SWAP,
    offsets_with,
    path_of,
    remove_if_there,
)
from semel.protocol.record_batch import HEADER_BYTES, read_header
from semel.world.disk import Disk


def cleaned_path(folder: Path, base_offset: int) -> Path:
    """Where a compacted segment is written."""
    return path_of(folder, base_offset, LOG + CLEANED)


def swap_path(folder: Path, base_offset: int) -> Path:
    """Where a compacted segment waits for the originals to go."""
    return path_of(folder, base_offset, LOG + SWAP)


def finish_swaps(disk: Disk, folder: Path) -> None:
    """After a crash: drop what was not chosen yet, carry through what was."""
    names = disk.list_dir(folder)
    for name in names:
        # Not chosen yet, so the originals are whole.
        if name.endswith((CLEANED, DELETED)):
            disk.remove(folder / name)
    for base_offset in offsets_with(names, LOG + SWAP):
        offset_next = _offset_next(disk, swap_path(folder, base_offset), base_offset)
        for replaced in offsets_with(names, LOG):
            # Its batches are in the chosen segment. Some originals may be gone already, in whatever number.
            if base_offset <= replaced < offset_next:
                remove_segment_files(disk, folder, replaced)
        put_in_place(disk, folder, base_offset)


def put_in_place(disk: Disk, folder: Path, base_offset: int) -> None:
    """The last step; index files of the original under that name no longer fit."""
    # An index of the original would say wrong positions for the shorter file.
    for suffix in INDEX_SUFFIXES:
        remove_if_there(disk, path_of(folder, base_offset, suffix))
    disk.rename(swap_path(folder, base_offset), path_of(folder, base_offset, LOG))


def remove_segment_files(disk: Disk, folder: Path, base_offset: int) -> None:
    """Remove an original and its index."""
    for suffix in (LOG, *INDEX_SUFFIXES):
        remove_if_there(disk, path_of(folder, base_offset, suffix))


def _offset_next(disk: Disk, path: Path, base_offset: int) -> int:
    """First offset after the batches of a compacted segment, which was synced before it got this name."""
    file = disk.open(path)
    try:
        # Headers suffice: the file was synced before it got its name, so no batch in it is torn.
        position, offset_next = 0, base_offset + 1
        while position < file.size_bytes:
            header = read_header(file.read_at(position, HEADER_BYTES))
            offset_next = header.offset_next
            position += header.size_bytes
        return offset_next
    finally:
        file.close()
