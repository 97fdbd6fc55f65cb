"""What of two sides is compared with what, where their columns do not matter; the rest is in `tests/spark/audit`."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from semel.audit.ledger_gaps import Commit
from semel.audit.sides import Reading, Side, plan_reading
from semel.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


COMMIT = Commit(partition="orders-0", offset_first=0, offset_next=1)


def side(*columns: str, **given: Any) -> Side:
    """A side whose rows nobody looks at."""
    return Side(cast("DataFrame", SimpleNamespace(columns=list(columns))), **({"content": ()} | given))


def test_keys_and_content_are_paired_by_their_place() -> None:
    reading = plan_reading(
        side(key=["id", "day"], content="cents"), side(key=["order_id", "day"], content=["amount * 100"])
    )
    assert reading == Reading(
        left_key=("id", "day"),
        right_key=("order_id", "day"),
        left_content=("cents",),
        right_content=("amount * 100",),
    )
    assert reading.identity == "id = order_id, day"
    assert reading.has_content


def test_content_can_differ_only_where_there_is_an_identity_beside_it() -> None:
    assert not plan_reading(side(key="id"), side(key="id")).has_content
    whole = plan_reading(side(content=("a", "b")), side(content=("a", "b")))
    assert (whole.has_content, whole.identity) == (False, "the whole row")


def test_a_column_that_is_the_key_of_one_side_alone_is_listed_as_not_compared() -> None:
    left = side("id", "order_id", "cents", key="id", content=None)
    right = side("id", "order_id", "cents", key="order_id", content=None)
    reading = plan_reading(left, right)
    assert (reading.left_content, reading.right_content) == (("`cents`",), ("`cents`",))
    assert reading.not_compared == ("id", "order_id")


def test_where_no_content_is_compared_the_columns_are_listed() -> None:
    left = side("id", "value", "offset", key="id", aside=("offset",))
    reading = plan_reading(left, side("id", "value", "paid", key="id"))
    assert reading.not_compared == ("value", "paid")
    assert not reading.has_content


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ({"key": "id"}, {}, "keys of different length"),
        ({"key": "id"}, {"key": ("a", "b")}, "keys of different length"),
        ({"key": "id", "content": "a"}, {"key": "id", "content": ("a", "b")}, "content of different length"),
        ({"key": "id", "content": None}, {"key": "id"}, "one side only"),
        ({"key": " "}, {"key": "id"}, "an expression is empty"),
        ({}, {}, "neither a key nor content"),
        ({"key": "id", "position": "at"}, {"key": "id"}, "position on both sides"),
        ({"key": "id", "stream": "part"}, {"key": "id"}, "without a position"),
        ({"key": "id"}, {"key": "id", "unit": "batch"}, "belongs to the left side"),
        ({"key": "id", "commits": (COMMIT,)}, {"key": "id"}, "belong to the right side"),
    ],
)
def test_sides_that_do_not_fit_are_refused(left: dict[str, Any], right: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan_reading(side(**left), side(**right))
