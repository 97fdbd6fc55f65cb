"""Work that stops every few milliseconds, so that the loop can serve everybody else in between.

All brokers share one loop: whatever holds it holds them all. Work whose length a client decides is a generator that
yields where others may go on; who cannot wait runs it to its end.
"""

from collections.abc import Generator
from typing import TypeVar

from semel.world.clock import Clock

T = TypeVar("T")
Pausing = Generator[None, None, T]


def run_through(work: Pausing[T]) -> T:
    """Do all of it now."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the generator returned


async def run_pausing(work: Pausing[T], clock: Clock) -> T:
    """Do it with a turn of the loop at every pause; work without one is done at once."""
    try:
        while True:
            try:
                next(work)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what the generator returned
            await clock.sleep_ms(0)
    finally:
        # Work that is given up half way lets go of its files now, not when it is collected.
        work.close()
