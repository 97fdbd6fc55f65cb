"""`read_ahead`: the next rows arrive while these are encoded.

Why: Spark fills and drains a worker in one thread, and a worker that encodes takes nothing, so one of the two always
     waited for the other. Encoding, compressing and receiving all run without Python's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


def read_ahead(items: Iterable[T], items_max: int = 1) -> Generator[T, None, None]:
    """Give `items` in order, taken by a thread that is `items_max` in front at most; what it meets is raised here.

    Who wants no more leaves the thread behind, if it waits for an item just then.
    """
    ahead = _Ahead[T](items_max)
    threading.Thread(target=ahead.take, args=(iter(items),), name="semel-read-ahead", daemon=True).start()
    try:
        while (item := ahead.taken.get()) is not None:
            yield item.value
            item = None  # or the rows would live until the next have come
            ahead.room.release()
    finally:
        ahead.is_over = True
        ahead.room.release()
    if ahead.error is not None:
        raise ahead.error


class _Item(Generic[T]):
    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


class _Ahead(Generic[T]):
    def __init__(self, items_max: int) -> None:
        self.taken: SimpleQueue[_Item[T] | None] = SimpleQueue()
        self.room = threading.Semaphore(items_max + 1)  # the one that is given out counts
        self.error: BaseException | None = None
        self.is_over = False

    def take(self, items: Iterator[T]) -> None:
        try:
            while self._take_one(items):
                pass
        except BaseException as error:  # noqa: BLE001 - raised where the items are used
            self.error = error
        self.taken.put(None)

    def _take_one(self, items: Iterator[T]) -> bool:
        self.room.acquire()
        if self.is_over:
            return False
        for item in items:
            self.taken.put(_Item(item))
            return True
        return False
