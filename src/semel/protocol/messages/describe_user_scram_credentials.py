"""describe_user_scram_credentials, v0-0. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class UserName(Message):
    API_KEY: ClassVar[int] = 50
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    name: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsRequest(Message):
    API_KEY: ClassVar[int] = 50
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    users: Sequence[UserName] | None = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('users', 'message', 0, 0, nullable_first=0, array=True, message=UserName),
    )


@dataclass(slots=True, kw_only=True)
class CredentialInfo(Message):
    API_KEY: ClassVar[int] = 50
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    mechanism: int = 0
    iterations: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('mechanism', 'int8', 0, 0),
        Field('iterations', 'int32', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsResult(Message):
    API_KEY: ClassVar[int] = 50
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: Sequence[CredentialInfo] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('user', 'string', 0, 0),
        Field('error_code', 'int16', 0, 0),
        Field('error_message', 'string', 0, 0, nullable_first=0),
        Field('credential_infos', 'message', 0, 0, array=True, message=CredentialInfo),
    )


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsResponse(Message):
    API_KEY: ClassVar[int] = 50
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: Sequence[DescribeUserScramCredentialsResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 0),
        Field('error_code', 'int16', 0, 0),
        Field('error_message', 'string', 0, 0, nullable_first=0),
        Field('results', 'message', 0, 0, array=True, message=DescribeUserScramCredentialsResult),
    )
