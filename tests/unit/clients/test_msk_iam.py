"""Settings of Amazon's guides for MSK with IAM: refused by every part, with what works instead, and that is taken."""

import sys
from collections.abc import Callable
from types import ModuleType

import pytest

import semel
from semel.errors import ConfigError
from semel.sinks.kafka.options import sink_connection
from semel.spark.options import SourceOptions

ADDRESS = "127.0.0.1:9"
JAVA = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}
BY_TOKEN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
}
WRITTEN = [
    JAVA,
    {name: value for name, value in JAVA.items() if "callback" not in name},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "aws_msk_iam"},
    BY_TOKEN,
]


def for_spark(settings: dict[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in {**settings, "bootstrap.servers": ADDRESS}.items()}


@pytest.mark.parametrize("settings", WRITTEN, ids=["java", "jaas", "mechanism", "token"])
def test_every_part_says_what_works_instead(settings: dict[str, str]) -> None:
    tries: dict[str, list[Callable[[], object]]] = {
        "kafka.sasl.login.callback.handler.class": [
            lambda: sink_connection(for_spark(settings)),
            lambda: SourceOptions.parse(for_spark(settings) | {"subscribe": "orders"}, streaming=True),
        ],
        "oauth_cb": [
            lambda: semel.Producer(ADDRESS, guarantee="at_least_once", settings=settings),
            lambda: semel.Consumer(ADDRESS, ["orders"], group="g", guarantee="at_least_once", settings=settings),
        ],
    }
    for setting, calls in tries.items():
        for call in calls:
            with pytest.raises(ConfigError) as refused:
                call()
            assert setting in refused.value.you_want
            assert "OAUTHBEARER" in refused.value.you_want
            assert "docs/guide/security.md" in refused.value.next_command


def test_what_works_instead_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("company_msk")
    module.__dict__["token"] = lambda: "signed"
    monkeypatch.setitem(sys.modules, "company_msk", module)
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    by_name = login | {"sasl.login.callback.handler.class": "company_msk:token"}
    assert sink_connection(for_spark(by_name)).sasl is not None
    with semel.Producer(
        ADDRESS, guarantee="at_least_once", settings={**login, "oauth_cb": lambda _: ("signed", 4e9)}
    ) as producer:
        assert producer is not None
