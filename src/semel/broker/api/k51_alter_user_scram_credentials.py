"""AlterUserScramCredentials (key 51, v0): create, change and remove SCRAM users.

Keeps:    B5 a credential is durable before it can be used; the metadata log holds derived keys, never a password.
Differs:  docs/DIFFERENCES.md#k51
Versions: v0 first flexible.
Sources:  KIP-554.
"""

from __future__ import annotations

from collections import Counter

from semel.broker.metadata.cluster_state import CredentialSet
from semel.broker.network.context import ELEMENTS_BETWEEN_PAUSES, Context
from semel.broker.network.registry import api
from semel.broker.network.sasl import StoredCredentials
from semel.broker.network.scram import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISM_NUMBERS, credential_of
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

_MECHANISMS = {number: name for name, number in MECHANISM_NUMBERS.items()}
Alteration = ScramCredentialDeletion | ScramCredentialUpsertion


def refuse(request: AlterUserScramCredentialsRequest, code: ErrorCode) -> AlterUserScramCredentialsResponse:
    """Answer with this error for every user."""
    users = dict.fromkeys(
        [change.name for change in request.deletions] + [change.name for change in request.upsertions]
    )
    rows = [AlterUserScramCredentialsResult(user=user, error_code=code, error_message=None) for user in users]
    return AlterUserScramCredentialsResponse(results=rows)


@api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, first=0, last=0, refuse=refuse)
async def answer(context: Context, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    """Plan every user by itself, then commit those that passed, hundreds as one change."""
    controller = context.broker.controller
    changes: list[Alteration] = [*request.deletions, *request.upsertions]
    # Before anything is planned: two changes of one user contradict each other, whichever comes first.
    times = Counter(change.name for change in changes)
    planned: list[CredentialSet] = []
    rows: dict[str, AlterUserScramCredentialsResult] = {}
    for number, change in enumerate(changes):
        await context.pause_after(number)
        row = rows[change.name] = AlterUserScramCredentialsResult(user=change.name, error_message=None)
        try:
            planned.append(_plan(change, times[change.name], controller.state.credentials))
        except Refused as refused:
            row.error_code, row.error_message = refused.code, refused.summary
    for start in range(0, len(planned), ELEMENTS_BETWEEN_PAUSES):
        await context.pause_after(start - 1)
        controller.commit(planned[start : start + ELEMENTS_BETWEEN_PAUSES])
    return AlterUserScramCredentialsResponse(results=list(rows.values()))


def _plan(change: Alteration, times: int, stored: StoredCredentials) -> CredentialSet:
    if times > 1:
        raise Refused(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    if not change.name:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = _MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        return _plan_deletion(change.name, mechanism, stored)
    return _plan_upsertion(change, mechanism)


def _plan_deletion(user: str, mechanism: str, stored: StoredCredentials) -> CredentialSet:
    if (user, mechanism) not in stored:
        raise Refused(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    # A credential without iterations is how the metadata log says that there is none any more.
    return CredentialSet(user=user, mechanism=mechanism, iterations=0)


def _plan_upsertion(change: ScramCredentialUpsertion, mechanism: str) -> CredentialSet:
    if change.iterations < ITERATIONS_MIN:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    # Iterations are the client's work at every login. A huge number would lock its user out.
    if change.iterations > ITERATIONS_MAX:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return credential_of(change.name, mechanism, change.salted_password, salt=change.salt, iterations=change.iterations)
