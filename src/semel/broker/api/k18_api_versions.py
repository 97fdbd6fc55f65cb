"""ApiVersions (key 18, v0-4): tell a client what this broker speaks.

Keeps:    B1 the broker advertises exactly what it implements.
Differs:  docs/DIFFERENCES.md#k18
Versions: v3 first flexible, but its response keeps header v0 so that any client can read it.
Sources:  KIP-35, KIP-511, KIP-584, KIP-848, KIP-890.
"""

from __future__ import annotations

import re

from semel.broker.network.context import Context
from semel.broker.network.registry import api, apis
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
GROUP_LEVEL = 1  # the consumer protocol; Java clients look for it before they use it
ZERO_FEATURES_FIRST = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def refuse(_: ApiVersionsRequest, code: ErrorCode) -> ApiVersionsResponse:
    """Answer with this error; for an unknown version, with the versions of this API that can be asked instead."""
    is_unknown = code is ErrorCode.UNSUPPORTED_VERSION
    keys = [row for row in _advertised() if is_unknown and row.api_key == ApiVersionsRequest.API_KEY]
    return ApiVersionsResponse(error_code=code, api_keys=keys)


@api(
    ApiVersionsRequest,
    ApiVersionsResponse,
    first=0,
    last=4,
    refuse=refuse,
    before_authentication=True,
)
async def answer(context: Context, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """List every API with its versions."""
    if context.version >= 3:
        names = (request.client_software_name, request.client_software_version)
        # KIP-511: the names end up in logs and metrics, so only plain characters are taken.
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            return refuse(request, ErrorCode.INVALID_REQUEST)
        context.session.client_software = " ".join(names)
    return ApiVersionsResponse(
        api_keys=_advertised(),
        supported_features=_supported(context.version),
        # Rises with the metadata log, so a client can tell the newer of two answers.
        finalized_features_epoch=context.broker.state.version,
        finalized_features=_finalized(context.broker.cluster.transaction_version),
    )


def _supported(version: int) -> list[SupportedFeatureKey]:
    """Clients before v4 fail on a feature whose lowest version is 0, so they do not hear of it."""
    if version < ZERO_FEATURES_FIRST:
        return []
    levels = ((GROUP_VERSION, GROUP_LEVEL), (TRANSACTION_VERSION, 2))
    return [SupportedFeatureKey(name=name, min_version=0, max_version=last) for name, last in levels]


def _finalized(level: int) -> list[FinalizedFeatureKey]:
    levels = ((GROUP_VERSION, GROUP_LEVEL), (TRANSACTION_VERSION, level))
    return [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in levels
        # Level 0 means that the feature is not in use; it is left out, as in Apache Kafka.
        if level
    ]


def _advertised() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=entry.key, min_version=entry.advertised_first, max_version=entry.last)
        for entry in sorted(apis().values(), key=lambda entry: entry.key)
    ]
