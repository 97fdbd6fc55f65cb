"""`Callbacks`: what the library calls, without the exceptions, which are raised when the library is left.

Why: a `consume` of confluent-kafka that is cut off by an exception of a callback forgets a record that it had already:
     the record is lost, and the library's close waits for it for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from semel.clients.library import log

P = ParamSpec("P")


class Callbacks:
    """The callbacks of one client, and the first exception that none of its calls has raised yet."""

    def __init__(self) -> None:
        """None came."""
        self.error: BaseException | None = None

    def keeping(self, function: Callable[P, object]) -> Callable[P, None]:
        """The same function; what it raises is kept."""

        @wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> None:
            try:
                function(*arguments, **named)
            except BaseException as error:  # noqa: BLE001 - Ctrl-C too: it is raised when the library is left
                if self.error is None:
                    self.error = error
                else:
                    log.error("a callback has failed again", exc_info=error)

        return call

    def raise_kept(self) -> None:
        """Raise what a callback has raised since this was asked last."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def log_kept(self) -> None:
        """Nobody asks for more: tell of it all the same."""
        error, self.error = self.error, None
        if error is not None:
            log.error("a callback has failed while the consumer was closed", exc_info=error)
