"""The APIs this broker speaks: each file in `api/` registers one, and ApiVersions answers from what is registered.

Keeps: B1 the broker advertises exactly what it implements.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message

if TYPE_CHECKING:
    from semel.broker.network.context import Context

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Generic[Request, Response]):
    """One API key: its messages, the versions served, and the two functions that make an answer."""

    key: int
    name: str
    request: type[Request]
    response: type[Response]
    first: int
    last: int
    advertised_first: int
    before_authentication: bool
    answer: Callable[[Context, Request], Awaitable[Response | None]]
    refuse: Callable[[Request, ErrorCode], Response]

    def serves(self, version: int) -> bool:
        """Tell whether this version is implemented."""
        return self.first <= version <= self.last


AnyApi = Api[Message, Message]
_apis: dict[int, AnyApi] = {}


def api(
    request: type[Request],
    response: type[Response],
    *,
    first: int,
    last: int,
    refuse: Callable[[Request, ErrorCode], Response],
    advertised_first: int | None = None,
    before_authentication: bool = False,
) -> Callable[[Callable[[Context, Request], Awaitable[Response | None]]], Api[Request, Response]]:
    """Register the decorated function as the answer to one API; `refuse` makes its error answer."""

    def register(answer: Callable[[Context, Request], Awaitable[Response | None]]) -> Api[Request, Response]:
        entry = Api(
            key=request.API_KEY,
            name=request.__name__.removesuffix("Request"),
            request=request,
            response=response,
            first=first,
            last=last,
            advertised_first=first if advertised_first is None else advertised_first,
            before_authentication=before_authentication,
            answer=answer,
            refuse=refuse,
        )
        assert entry.key not in _apis, f"API key {entry.key} is registered twice"
        # What is registered is advertised, so a version that the message class cannot decode must not get in (B1).
        assert request.FIRST <= first <= last <= request.LAST
        _apis[entry.key] = cast(AnyApi, entry)
        return entry

    return register


def apis() -> dict[int, AnyApi]:
    """Return every API by key, loading the files on the first call."""
    _load()
    return _apis


@cache  # not "are there any": importing one of the files has registered that one
def _load() -> None:
    package = importlib.import_module("semel.broker.api")
    try:
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"semel.broker.api.{module.name}")
    except BaseException:
        # Half a table must not be served: the next call loads again and raises the same error.
        _apis.clear()
        raise
