"""DescribeConfigs (key 32, v1-4): settings of topics and brokers, and where each value comes from.

Keeps:    B9 an answer comes from one cluster state, never from two.
Differs:  docs/DIFFERENCES.md#k32
Versions: v1 synonyms; v3 types and documentation; v4 first flexible.
Sources:  KIP-133, KIP-226, KIP-569.
"""

from __future__ import annotations

from semel.broker.controller.config_changes import CLUSTER_DEFAULT, ResourceType
from semel.broker.controller.controller import check_topic_name
from semel.broker.metadata.cluster_state import ClusterState
from semel.broker.metadata.config_view import (
    BrokerLayers,
    Setting,
    broker_settings,
    cluster_default_settings,
    topic_settings,
)
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def refuse(request: DescribeConfigsRequest, code: ErrorCode) -> DescribeConfigsResponse:
    """Answer with this error for every resource."""
    return DescribeConfigsResponse(results=[_refused(resource, code, None) for resource in request.resources])


def _refused(resource: DescribeConfigsResource, code: ErrorCode, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


@api(DescribeConfigsRequest, DescribeConfigsResponse, first=1, last=4, refuse=refuse)
async def answer(context: Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe each resource; an empty list of keys asks for all of them."""
    # One state for all of the answer, whatever changes at the pauses (B9).
    state, rows = context.broker.state, []
    for resource in request.resources:
        row = _describe(context, state, resource, synonyms=request.include_synonyms)
        rows.append(row)
        await context.count_rows(1 + sum(1 + len(config.synonyms) for config in row.configs))
    return DescribeConfigsResponse(results=rows)


def _describe(
    context: Context, state: ClusterState, resource: DescribeConfigsResource, *, synonyms: bool
) -> DescribeConfigsResult:
    try:
        settings = _settings(context, state, resource.resource_type, resource.resource_name)
    except Refused as refused:
        is_unknown = refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # As Apache Kafka: an unknown topic comes without words.
        return _refused(resource, ErrorCode(refused.code), "" if is_unknown else refused.summary)
    wanted = set(resource.configuration_keys or ())
    return DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_row(setting, synonyms=synonyms) for setting in settings if not wanted or setting.name in wanted],
    )


def _settings(context: Context, state: ClusterState, kind: int, name: str) -> list[Setting]:
    layers = BrokerLayers(
        broker=state.broker_configs.get(str(context.broker.id), {}),
        all_brokers=state.broker_configs.get(CLUSTER_DEFAULT, {}),
        static=context.broker.settings.given,
    )
    match kind:
        case ResourceType.TOPIC:
            check_topic_name(name)
            if name not in state.topics:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            return topic_settings(state.topics[name].config, layers)
        case ResourceType.BROKER if name == CLUSTER_DEFAULT:
            return cluster_default_settings(layers)
        case ResourceType.BROKER:
            _check_is_here(context, name)
            return broker_settings(layers)
        case _:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")


def _check_is_here(context: Context, name: str) -> None:
    # Both: `isdigit` alone lets "²" pass, and `int` would then raise.
    if not name.isascii() or not name.isdigit():
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    # A broker knows no other broker's static settings. Admin clients send the request to the broker it is about.
    if int(name) != context.broker.id:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.broker.id} or empty string, but received {name}",
        )


def _row(setting: Setting, *, synonyms: bool) -> DescribeConfigsResourceResult:
    shown = setting.synonyms if synonyms else ()
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.value,
        read_only=setting.read_only,
        config_source=setting.source,
        synonyms=[DescribeConfigsSynonym(name=row.name, value=row.value, source=row.source) for row in shown],
        config_type=setting.type,
        documentation=None,
    )
