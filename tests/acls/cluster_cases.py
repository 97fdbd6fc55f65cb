"""Cases about settings and the cluster itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from semel.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from semel.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from semel.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from semel.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
)
from semel.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from semel.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from semel.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from semel.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from semel.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from semel.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from semel.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from semel.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from semel.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from semel.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from semel.protocol.messages.incremental_alter_configs import AlterableConfig as Changed
from semel.protocol.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from semel.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from semel.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from semel.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from tests.acls.cases import CLUSTER, TOPIC, Case, Place
from tests.acls.rights import Right

TOPIC_SETTINGS, BROKER_SETTINGS = 2, 4
ALL_BROKERS = ""


def settings(place: Place, names: Sequence[str], _version: int) -> DescribeConfigsRequest:
    keys = ["retention.bytes"]
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=TOPIC_SETTINGS, resource_name=place.name(name), configuration_keys=keys
            )
            for name in names
        ]
    )


def broker_settings(_place: Place, _names: Sequence[str], _version: int) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=BROKER_SETTINGS, resource_name="1", configuration_keys=["auto.create.topics.enable"]
    )
    return DescribeConfigsRequest(resources=[resource])


def alter(place: Place, names: Sequence[str], _version: int) -> AlterConfigsRequest:
    row = AlterableConfig(name="retention.bytes", value="1000")
    resources = [
        AlterConfigsResource(resource_type=TOPIC_SETTINGS, resource_name=place.name(name), configs=[row])
        for name in names
    ]
    return AlterConfigsRequest(resources=resources, validate_only=True)


def alter_some(place: Place, names: Sequence[str], _version: int) -> IncrementalAlterConfigsRequest:
    row = Changed(name="retention.bytes", value="1000")
    resources = [
        ChangedResource(resource_type=TOPIC_SETTINGS, resource_name=place.name(name), configs=[row]) for name in names
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=True)


def alter_brokers(_place: Place, _names: Sequence[str], _version: int) -> IncrementalAlterConfigsRequest:
    row = Changed(name="log.retention.bytes", value="1000")
    resource = ChangedResource(resource_type=BROKER_SETTINGS, resource_name=ALL_BROKERS, configs=[row])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def resources(_place: Place, _names: Sequence[str], version: int) -> ListConfigResourcesRequest:
    return ListConfigResourcesRequest(resource_types=[BROKER_SETTINGS] if version else [])


def describe_acls(place: Place, _names: Sequence[str], _version: int) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter=place.name("nothing"),
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def create_acls(place: Place, _names: Sequence[str], _version: int) -> CreateAclsRequest:
    right = Right("READ", "TOPIC", place.name("used"), principal="User:somebody")
    return CreateAclsRequest(creations=[right.creation(), right.creation()])


def delete_acls(place: Place, _names: Sequence[str], _version: int) -> DeleteAclsRequest:
    nothing = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter=place.name("nothing"),
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    own = replace(nothing, resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1)
    return DeleteAclsRequest(filters=[nothing, own])


def folders(place: Place, names: Sequence[str], _version: int) -> DescribeLogDirsRequest:
    topics = [DescribableLogDirTopic(topic=place.name(name), partitions=[0]) for name in names]
    return DescribeLogDirsRequest(topics=topics)


def elect(place: Place, names: Sequence[str], _version: int) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=place.name(name), partitions=[0]) for name in names]
    )


def reassign(place: Place, names: Sequence[str], _version: int) -> AlterPartitionReassignmentsRequest:
    row = ReassignablePartition(partition_index=0, replicas=None)
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=place.name(name), partitions=[row]) for name in names]
    )


def reassignments(place: Place, names: Sequence[str], _version: int) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(
        topics=[ListPartitionReassignmentsTopics(name=place.name(name), partition_indexes=[0]) for name in names]
    )


def credentials(_place: Place, _names: Sequence[str], _version: int) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")])


def alter_credentials(_place: Place, _names: Sequence[str], _version: int) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="nobody", mechanism=1)])


def quotas(_place: Place, _names: Sequence[str], _version: int) -> DescribeClientQuotasRequest:
    component = ComponentData(entity_type="user", match_type=0, match="nobody")
    return DescribeClientQuotasRequest(components=[component])


def alter_quotas(_place: Place, _names: Sequence[str], _version: int) -> AlterClientQuotasRequest:
    entity = [EntityData(entity_type="user", entity_name="nobody")]
    ops = [OpData(key="producer_byte_rate", remove=True)]
    return AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)], validate_only=True)


def quorum(_place: Place, _names: Sequence[str], _version: int) -> DescribeQuorumRequest:
    unknown = [PartitionData(partition_index=7)]  # a known one would be described otherwise by every cluster
    return DescribeQuorumRequest(topics=[TopicData(topic_name="__cluster_metadata", partitions=unknown)])


def describe_cluster(_place: Place, _names: Sequence[str], _version: int) -> DescribeClusterRequest:
    return DescribeClusterRequest(include_cluster_authorized_operations=True)


DESCRIBE, ALTER = ("DESCRIBE",), ("ALTER",)

CLUSTER_CASES = (
    Case(
        name="settings of topics",
        response=DescribeConfigsResponse,
        request=settings,
        needs=(("DESCRIBE_CONFIGS", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="settings of brokers",
        response=DescribeConfigsResponse,
        request=broker_settings,
        needs=(("DESCRIBE_CONFIGS",),),
        refused=CLUSTER,
    ),
    Case(
        name="alter settings",
        response=AlterConfigsResponse,
        request=alter,
        needs=(("ALTER_CONFIGS", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="alter some settings",
        response=IncrementalAlterConfigsResponse,
        request=alter_some,
        needs=(("ALTER_CONFIGS", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="alter settings of brokers",
        response=IncrementalAlterConfigsResponse,
        request=alter_brokers,
        needs=(("ALTER_CONFIGS",),),
        refused=CLUSTER,
    ),
    Case(
        name="list what has settings",
        response=ListConfigResourcesResponse,
        request=resources,
        needs=(("DESCRIBE_CONFIGS",),),
        refused=CLUSTER,
    ),
    Case(
        name="describe acls", response=DescribeAclsResponse, request=describe_acls, needs=(DESCRIBE,), refused=CLUSTER
    ),
    Case(name="create acls", response=CreateAclsResponse, request=create_acls, needs=(ALTER,), refused=CLUSTER),
    Case(name="delete acls", response=DeleteAclsResponse, request=delete_acls, needs=(ALTER,), refused=CLUSTER),
    Case(name="folders", response=DescribeLogDirsResponse, request=folders, needs=(DESCRIBE,), refused=CLUSTER),
    Case(name="elect", response=ElectLeadersResponse, request=elect, needs=(ALTER,), refused=CLUSTER),
    Case(
        name="reassign",
        response=AlterPartitionReassignmentsResponse,
        request=reassign,
        needs=(ALTER,),
        refused=CLUSTER,
    ),
    Case(
        name="reassignments",
        response=ListPartitionReassignmentsResponse,
        request=reassignments,
        needs=(DESCRIBE,),
        refused=CLUSTER,
    ),
    Case(
        name="credentials",
        response=DescribeUserScramCredentialsResponse,
        request=credentials,
        needs=(DESCRIBE,),
        refused=CLUSTER,
    ),
    Case(
        name="alter credentials",
        response=AlterUserScramCredentialsResponse,
        request=alter_credentials,
        needs=(ALTER,),
        refused=CLUSTER,
    ),
    Case(
        name="quotas",
        response=DescribeClientQuotasResponse,
        request=quotas,
        needs=(("DESCRIBE_CONFIGS",),),
        refused=CLUSTER,
    ),
    Case(
        name="alter quotas",
        response=AlterClientQuotasResponse,
        request=alter_quotas,
        needs=(("ALTER_CONFIGS",),),
        refused=CLUSTER,
    ),
    Case(name="quorum", response=DescribeQuorumResponse, request=quorum, needs=(DESCRIBE,), refused=CLUSTER),
    Case(
        name="describe the cluster",
        response=DescribeClusterResponse,
        request=describe_cluster,
        needs=(DESCRIBE,),
        refused=None,
        hiding=(0,),
    ),
)
