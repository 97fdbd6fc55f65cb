"""DescribeUserScramCredentials (key 50, v0): which users have a SCRAM credential, and of which kind.

Differs:  docs/DIFFERENCES.md#k50
Versions: v0 first flexible.
Sources:  KIP-554.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.broker.cluster_state import CredentialSet
from semel.broker.context import Context
from semel.broker.registry import api
from semel.broker.scram import MECHANISM_NUMBERS
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def refuse(_: DescribeUserScramCredentialsRequest, code: ErrorCode) -> DescribeUserScramCredentialsResponse:
    """An error and no user."""
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None)


@api(
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    first=0,
    last=0,
    refuse=refuse,
)
async def answer(
    context: Context, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Describe the users asked for, or all of them when none is named; keys and salts stay here."""
    stored = context.broker.state.credentials.values()
    names = [user.name for user in request.users or ()] or sorted({credential.user for credential in stored})
    rows = [
        _repeated(name) if names.count(name) > 1 else _described(name, [c for c in stored if c.user == name])
        for name in dict.fromkeys(names)
    ]
    return DescribeUserScramCredentialsResponse(error_message=None, results=rows)


def _described(name: str, credentials: Sequence[CredentialSet]) -> DescribeUserScramCredentialsResult:
    if not credentials:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=text
        )
    infos = [CredentialInfo(mechanism=MECHANISM_NUMBERS[c.mechanism], iterations=c.iterations) for c in credentials]
    infos.sort(key=lambda info: info.mechanism)
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)


def _repeated(name: str) -> DescribeUserScramCredentialsResult:
    text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    return DescribeUserScramCredentialsResult(user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=text)
