"""SaslAuthenticate (key 36, v0-2): carry the tokens of the mechanism agreed on.

Differs:  docs/DIFFERENCES.md#k36
Versions: v1 session lifetime, here always 0 (no end); v2 first flexible.
Sources:  KIP-152, KIP-368.
"""

from __future__ import annotations

from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.network.sasl import AuthenticationFailed
from semel.errors import ProtocolError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def refuse(_: SaslAuthenticateRequest, code: ErrorCode) -> SaslAuthenticateResponse:
    """Answer with this error and no token."""
    return SaslAuthenticateResponse(error_code=code, error_message=None)


@api(SaslAuthenticateRequest, SaslAuthenticateResponse, first=0, last=2, refuse=refuse, before_authentication=True)
async def answer(context: Context, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Take one step of the login; a refusal is answered late, and the connection closed."""
    if context.session.authenticated:
        text = "SaslAuthenticate request received after successful authentication"
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=text)
    if context.session.sasl is None:
        # There is no mechanism to answer with, so the connection ends.
        raise ProtocolError("SaslAuthenticate before SaslHandshake")
    try:
        # The last token makes the session's principal. Until then every other API is refused by the server.
        token = context.session.take_token(request.auth_bytes)
    except AuthenticationFailed as failed:
        await context.broker.server.delay_refusal(context.session, failed)
        return SaslAuthenticateResponse(error_code=failed.code, error_message=failed.summary)
    return SaslAuthenticateResponse(error_message=None, auth_bytes=token)
