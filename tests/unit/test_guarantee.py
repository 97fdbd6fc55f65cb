"""The three guarantees: what each allows, and how one is read from text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.guarantee import ALLOWED_ANOMALIES, Anomaly, Guarantee


@pytest.mark.parametrize(
    ("guarantee", "allowed"),
    [
        (Guarantee.AT_MOST_ONCE, {Anomaly.LOST}),
        (Guarantee.AT_LEAST_ONCE, {Anomaly.DUPLICATED, Anomaly.REORDERED}),
        (Guarantee.EXACTLY_ONCE, set()),
    ],
)
def test_each_guarantee_allows_exactly_its_anomalies(guarantee: Guarantee, allowed: set[Anomaly]) -> None:
    assert {anomaly for anomaly in Anomaly if guarantee.allows(anomaly)} == allowed


def test_every_guarantee_has_its_row_and_the_table_is_read_only() -> None:
    assert set(ALLOWED_ANOMALIES) == set(Guarantee)
    with pytest.raises(TypeError):
        ALLOWED_ANOMALIES[Guarantee.EXACTLY_ONCE] = frozenset({Anomaly.LOST})  # type: ignore[index]


@pytest.mark.parametrize("anomaly", [Anomaly.ABORTED_READ])
@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_no_guarantee_allows_reading_what_was_aborted(guarantee: Guarantee, anomaly: Anomaly) -> None:
    assert not guarantee.allows(anomaly)


@given(
    guarantee=st.sampled_from(list(Guarantee)),
    separator=st.sampled_from(["_", "-", " ", "  ", " - "]),
    upper=st.booleans(),
    padding=st.sampled_from(["", " ", "\t", "\n"]),
)
def test_a_guarantee_is_read_however_people_write_it(
    guarantee: Guarantee, separator: str, *, upper: bool, padding: str
) -> None:
    text = guarantee.value.replace("_", separator)
    assert Guarantee.parse(padding + (text.upper() if upper else text) + padding) is guarantee


@pytest.mark.parametrize("text", ["", "once", "exactly", "exactly_once_v2", "at most", "exactlyonce"])
def test_anything_else_is_refused_with_the_three_choices(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Guarantee.parse(text)
    assert repr(text) in str(caught.value)
    assert caught.value.you_want == "at_most_once | at_least_once | exactly_once"
