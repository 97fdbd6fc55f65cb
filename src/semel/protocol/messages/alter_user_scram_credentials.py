"""alter_user_scram_credentials, v0-0. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ScramCredentialDeletion(Message):
    API_KEY: ClassVar[int] = 51
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    name: str = ""
    mechanism: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 0),
        Field('mechanism', 'int8', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class ScramCredentialUpsertion(Message):
    API_KEY: ClassVar[int] = 51
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 0),
        Field('mechanism', 'int8', 0, 0),
        Field('iterations', 'int32', 0, 0),
        Field('salt', 'bytes', 0, 0),
        Field('salted_password', 'bytes', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsRequest(Message):
    API_KEY: ClassVar[int] = 51
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    deletions: Sequence[ScramCredentialDeletion] = ()
    upsertions: Sequence[ScramCredentialUpsertion] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('deletions', 'message', 0, 0, array=True, message=ScramCredentialDeletion),
        Field('upsertions', 'message', 0, 0, array=True, message=ScramCredentialUpsertion),
    )


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsResult(Message):
    API_KEY: ClassVar[int] = 51
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('user', 'string', 0, 0),
        Field('error_code', 'int16', 0, 0),
        Field('error_message', 'string', 0, 0, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsResponse(Message):
    API_KEY: ClassVar[int] = 51
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    results: Sequence[AlterUserScramCredentialsResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 0),
        Field('results', 'message', 0, 0, array=True, message=AlterUserScramCredentialsResult),
    )
