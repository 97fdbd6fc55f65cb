"""SaslHandshake (key 17, v0-1): agree on a SASL mechanism.

Differs:  docs/DIFFERENCES.md#k17
Versions: v0 is followed by bare tokens, each with its length; v1 by SaslAuthenticate. Never flexible.
Sources:  KIP-43, KIP-152.
"""

from __future__ import annotations

from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def refuse(_: SaslHandshakeRequest, code: ErrorCode) -> SaslHandshakeResponse:
    """Answer with this error and no mechanism."""
    return SaslHandshakeResponse(error_code=code)


@api(SaslHandshakeRequest, SaslHandshakeResponse, first=0, last=1, refuse=refuse, before_authentication=True)
async def answer(context: Context, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin an exchange with the mechanism asked for, or name those there are and close."""
    session, authenticator = context.session, context.broker.authenticator
    # After a login, or without SASL, the request only comes too late and the connection stays. During a login it breaks
    # the exchange, and the connection is closed (below). Apache Kafka does the same.
    if session.authenticated or authenticator is None:
        return refuse(request, ErrorCode.ILLEGAL_SASL_STATE)
    if session.sasl is not None:
        session.close_after_answer = True
        return refuse(request, ErrorCode.ILLEGAL_SASL_STATE)
    if request.mechanism not in authenticator.mechanisms:
        session.close_after_answer = True
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=authenticator.mechanisms)
    session.sasl = authenticator.begin(request.mechanism, context.broker.state.credentials)
    # After version 0 clients send tokens without any Kafka header around them.
    session.sasl_bare_tokens = context.version == 0
    return SaslHandshakeResponse(mechanisms=authenticator.mechanisms)
