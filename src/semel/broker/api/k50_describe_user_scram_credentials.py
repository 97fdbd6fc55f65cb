"""DescribeUserScramCredentials (key 50, v0): which users have a SCRAM credential, and of which kind.

Differs:  docs/DIFFERENCES.md#k50
Versions: v0 first flexible.
Sources:  KIP-554.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from semel.broker.metadata.cluster_state import CredentialSet
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.network.scram import MECHANISM_NUMBERS
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def refuse(_: DescribeUserScramCredentialsRequest, code: ErrorCode) -> DescribeUserScramCredentialsResponse:
    """Answer with this error at the top, and for a user without a name."""
    row = DescribeUserScramCredentialsResult(error_code=code, error_message=None)
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=[row])


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
    # No user named means all of them, as with null.
    names = [user.name for user in request.users or ()] or sorted({credential.user for credential in stored})
    of_user: dict[str, list[CredentialSet]] = {}
    for credential in stored:
        of_user.setdefault(credential.user, []).append(credential)
    rows = [
        _repeated(name) if times > 1 else _described(name, of_user.get(name, ()))
        for name, times in Counter(names).items()
    ]
    return DescribeUserScramCredentialsResponse(results=rows)


def _described(name: str, credentials: Sequence[CredentialSet]) -> DescribeUserScramCredentialsResult:
    if not credentials:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=text
        )
    infos = [CredentialInfo(mechanism=MECHANISM_NUMBERS[c.mechanism], iterations=c.iterations) for c in credentials]
    # By number, whichever was made first.
    infos.sort(key=lambda info: info.mechanism)
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)


def _repeated(name: str) -> DescribeUserScramCredentialsResult:
    text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    return DescribeUserScramCredentialsResult(user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=text)
