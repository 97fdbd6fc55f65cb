"""Every API can refuse a request in every version it serves, with the error where a client looks for it."""

import pytest

from semel.broker.network.registry import AnyApi, apis
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Field, Message, decode, encode_bytes

ERROR_FIELDS = ("error_code", "partition_error_code")
CODE = ErrorCode.UNKNOWN_SERVER_ERROR


def filled(cls: type[Message], version: int) -> Message:
    """A message with one element in each of its arrays that this version has."""
    message = cls()
    for field in cls.FIELDS:
        if field.array and field.in_version(version):
            setattr(message, field.name, [element(field, version)])
    return message


def element(field: Field, version: int) -> object:
    if field.message is not None:
        return filled(field.message, version)
    return "" if field.kind == "string" else 0


def error_codes(message: Message, version: int) -> list[int]:
    """Every error code in a message and below."""
    found: list[int] = []
    for field in type(message).FIELDS:
        value = getattr(message, field.name)
        if field.name in ERROR_FIELDS and field.in_version(version):
            found.append(value)
        below = value if isinstance(value, list) else [value]
        found += [code for part in below if isinstance(part, Message) for code in error_codes(part, version)]
    return found


@pytest.mark.parametrize("entry", apis().values(), ids=lambda entry: entry.name)
def test_a_refusal_fits_every_version_and_carries_the_error(entry: AnyApi) -> None:
    for version in range(entry.first, entry.last + 1):
        refusal = entry.refuse(filled(entry.request, version), CODE)
        seen = decode(entry.response, encode_bytes(refusal, version), version)
        codes = error_codes(seen, version)
        assert codes, f"{entry.name} v{version} has no place for the error"
        assert set(codes) == {CODE}, f"{entry.name} v{version}"
