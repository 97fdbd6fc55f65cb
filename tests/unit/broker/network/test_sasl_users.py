"""SCRAM users by the wire: what a client library would refuse by itself, the broker refuses too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from semel.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.hardening.raw import RawClient


@pytest.fixture
def client() -> Iterator[RawClient]:
    with Cluster(brokers=1) as cluster, RawClient(cluster.bootstrap) as connected:
        yield connected


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"salted"
    )


def alter(
    client: RawClient,
    upsertions: Sequence[ScramCredentialUpsertion] = (),
    deletions: Sequence[ScramCredentialDeletion] = (),
) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=deletions)
    answer = client.ask(request, AlterUserScramCredentialsResponse, 0)
    return {row.user: row.error_code for row in answer.results}


def describe(client: RawClient, *names: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
    answer = client.ask(request, DescribeUserScramCredentialsResponse, 0)
    return {
        row.user: (row.error_code, [(info.mechanism, info.iterations) for info in row.credential_infos])
        for row in answer.results
    }


def test_each_user_is_judged_apart(client: RawClient) -> None:
    changes = [upsertion("good", 2, 8192), upsertion("few", 1, 10), upsertion("odd", 7), upsertion("")]
    assert alter(client, changes) == {
        "good": ErrorCode.NONE,
        "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "odd": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
    }
    assert describe(client) == {"good": (0, [(2, 8192)])}


def test_a_user_cannot_be_altered_twice_in_one_request(client: RawClient) -> None:
    alter(client, [upsertion("old")])
    deletions = [ScramCredentialDeletion(name="old", mechanism=1)]
    codes = alter(
        client, [upsertion("old", 2), upsertion("new", 1), upsertion("new", 2), upsertion("other")], deletions
    )
    twice = ErrorCode.DUPLICATE_RESOURCE
    assert codes == {"old": twice, "new": twice, "other": ErrorCode.NONE}
    assert describe(client) == {"old": (0, [(1, 4096)]), "other": (0, [(1, 4096)])}


def test_a_user_may_have_a_credential_of_each_kind(client: RawClient) -> None:
    alter(client, [upsertion("both", 2)])
    alter(client, [upsertion("both", 1)])
    assert describe(client, "both") == {"both": (0, [(1, 4096), (2, 4096)])}
    alter(client, deletions=[ScramCredentialDeletion(name="both", mechanism=2)])
    assert describe(client, "both") == {"both": (0, [(1, 4096)])}


def test_asking_about_nobody_and_about_one_twice(client: RawClient) -> None:
    alter(client, [upsertion("a")])
    assert describe(client, "a", "a", "nobody") == {
        "a": (ErrorCode.DUPLICATE_RESOURCE, []),
        "nobody": (ErrorCode.RESOURCE_NOT_FOUND, []),
    }
