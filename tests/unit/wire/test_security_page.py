"""The table of mechanisms in docs/guide/security.md says what the two parts really take."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from semel.clients.security_settings import MECHANISMS, checked_security
from semel.errors import ConfigError
from semel.wire.security import SaslMechanism
from semel.wire.settings import WireSettings

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "security.md"
LOGIN = {"sasl.username": "u", "sasl.password": "p"}
FOR_CLIENTS: dict[str, dict[str, object]] = {"OAUTHBEARER": {"oauth_cb": print}, "GSSAPI": {}}
FOR_WIRE = {"OAUTHBEARER": {"sasl.login.callback.handler.class": "a.b:c"}}


def rows() -> dict[str, tuple[bool, bool]]:
    """Each mechanism of the second table, and whether the clients and Spark take it in some way."""
    table = PAGE.read_text(encoding="utf-8").partition("| `sasl.mechanism` |")[2].partition("\n\n")[0]
    found: dict[str, tuple[bool, bool]] = {}
    for line in table.splitlines()[2:]:
        first, clients, spark = line.strip("| ").split(" | ")[:3]
        for name in re.findall(r"`([A-Z0-9_-]+)`", first):
            before = found.get(name, (False, False))
            found[name] = (before[0] or "does not work" not in clients, before[1] or "does not work" not in spark)
    return found


@pytest.mark.parametrize("mechanism", rows())
def test_a_mechanism_is_taken_where_the_page_says_so(mechanism: str) -> None:
    by_clients, by_spark = rows()[mechanism]
    assert (mechanism in MECHANISMS, mechanism in {one.value for one in SaslMechanism}) == (by_clients, by_spark)
    base = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
    tries: dict[str, tuple[bool, Callable[[], object]]] = {
        "clients": (by_clients, lambda: checked_security({**base, **FOR_CLIENTS.get(mechanism, LOGIN)})),
        "spark": (
            by_spark,
            lambda: WireSettings.from_options(
                {
                    f"kafka.{name}": value
                    for name, value in {"bootstrap.servers": "a:1", **base, **FOR_WIRE.get(mechanism, LOGIN)}.items()
                }
            ),
        ),
    }
    for who, (is_taken, call) in tries.items():
        if is_taken:
            assert call(), who
        else:
            with pytest.raises(ConfigError):
                call()


def test_no_mechanism_is_left_out() -> None:
    assert {*MECHANISMS, *SaslMechanism} < set(rows())
