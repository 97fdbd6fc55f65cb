"""What an audit is asked to do: from a command line, from a file, and what is refused in either."""

from pathlib import Path

import pytest

from semel.audit.expectation import Expectation
from semel.audit.places import Files, Topic
from semel.audit.plan import plan_from_file, plan_from_texts
from semel.errors import ConfigError
from semel.guarantee import Guarantee

WHOLE = """
from = "kafka://localhost:9092/orders"
key = "id"
content = ["cents", "customer"]
expect = "at-most-one"
where = "cents > 0"
pipeline = "shop"
guarantee = "at-least-once"

[map]
id = "get_json_object(string(value), '$.id')"

[[to]]
place = "kafka://localhost:9092/payments"
map = { id = "order_id" }

[[to]]
place = "kafka://localhost:9092/shipments"
"""


def written(folder: Path, text: str) -> str:
    path = folder / "audit.toml"
    path.write_text(text)
    return str(path)


def test_a_file_says_all_that_flags_say_and_columns_for_each_side(tmp_path: Path) -> None:
    plan = plan_from_file(written(tmp_path, WHOLE))
    assert isinstance(plan.left.place, Topic)
    assert (plan.left.place.name, plan.left.columns) == ("orders", {"id": "get_json_object(string(value), '$.id')"})
    assert [one.columns for one in plan.rights] == [{"id": "order_id"}, {}]
    assert (plan.key, plan.content, plan.pipeline, plan.order) == (("id",), ("cents", "customer"), "shop", False)
    assert plan.guarantee is Guarantee.AT_LEAST_ONCE
    assert plan.expectation == Expectation(copies_min=0, copies_max=1, where="cents > 0")


def test_flags_and_a_file_mean_the_same(tmp_path: Path) -> None:
    text = 'from = "parquet:a"\norder = false\n[map]\nid = "x = 1"\n[[to]]\nplace = "json:b"\n'
    assert plan_from_file(written(tmp_path, text)) == plan_from_texts(
        "parquet:a", ["json:b"], left_columns=["id=x = 1"]
    )


def test_right_sides_share_the_columns_of_a_flag() -> None:
    plan = plan_from_texts("a.parquet", ["b.parquet", "c.parquet"], right_columns=["id=order_id"])
    assert [(one.place, one.columns) for one in plan.rights] == [
        (Files(text=name, form="parquet", path=name), {"id": "order_id"}) for name in ("b.parquet", "c.parquet")
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from = ", "cannot be read"),
        ("", "does not name both sides"),
        ('from = "parquet:a"', "no right side"),
        ('from = "parquet:a"\nto = "parquet:b"', "does not name both sides"),
        ('from = "parquet:a"\nform = 1', "'form' means nothing"),
        ('from = "parquet:a"\n[[to]]\nplace = "parquet:b"\nkey = "x"', "'key' means nothing"),
        ('from = "parquet:a"\nkey = 1\n[[to]]\nplace = "parquet:b"', "key cannot be '1'"),
        ('from = "parquet:a"\nkey = ["a", 1]\n[[to]]\nplace = "parquet:b"', "key cannot be"),
        ('from = "parquet:a"\norder = "yes"\n[[to]]\nplace = "parquet:b"', "order cannot be"),
        ('from = "parquet:a"\norder = true\n[[to]]\nplace = "parquet:b"', "between topics"),
        ('from = "parquet:a"\nstamp = 1\n[[to]]\nplace = "parquet:b"', "stamp cannot be"),
        ('from = "parquet:a"\nstamp = true\n[[to]]\nplace = "parquet:b"', "a stamp says which record"),
        ('from = "kafka://a:1/b"\nstamp = true\nkey = "id"\n[[to]]\nplace = "parquet:b"', "a stamp says which record"),
        ('from = "parquet:a"\nmap = { id = 1 }\n[[to]]\nplace = "parquet:b"', "map cannot be"),
        ('from = "parquet:a"\nexpect = "some"\n[[to]]\nplace = "parquet:b"', "cannot be expected"),
        ('from = "parquet:a"\nguarantee = "exactly once"\n[[to]]\nplace = "parquet:b"', "no pipeline is named"),
        ('from = "parquet:a"\nguarantee = "twice"\n[[to]]\nplace = "parquet:b"', "unknown guarantee"),
        ('from = "parquet:a"\ncommand_config = "x"\n[[to]]\nplace = "parquet:b"', "is in none"),
        ('from = 1\n[[to]]\nplace = "parquet:b"', "from cannot be"),
        ('from = "parquet:a"\n[[to]]\nplace = "b"', "cannot be read"),
        ('from = "parquet:a"\n[[to]]\n', "cannot be read"),
        ('from = "parquet:a"\n[[to]]\nplace = "parquet:b"\n[[to]]\nplace = "parquet:b"', "named twice"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan_from_file(written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing[.]toml cannot be read: No such file"):
        plan_from_file(str(tmp_path / "missing.toml"))


@pytest.mark.parametrize("pair", ["id", "=x", "id=", "id=a"])
def test_columns_are_named_once_and_have_a_value(pair: str) -> None:
    with pytest.raises(ConfigError, match="--map-left"):
        plan_from_texts("a.parquet", ["b.parquet"], left_columns=[pair, "id=b"])


def test_settings_to_connect_go_to_one_cluster_or_to_the_side_that_names_them(tmp_path: Path) -> None:
    one, other = "kafka://one:9092/orders", "kafka://two:9092/bills"
    same = plan_from_texts(one, ["kafka://one:9092/bills", "parquet:x"]).with_command_config("login")
    assert [side.command_config for side in (same.left, *same.rights)] == ["login", "login", ""]
    with pytest.raises(ConfigError, match="one cluster"):
        plan_from_texts(one, [other]).with_command_config("login")
    with pytest.raises(ConfigError, match="one cluster"):
        plan_from_texts("parquet:x", ["parquet:y"]).with_command_config("login")
    text = f'from = "{one}"\ncommand_config = "a"\n[[to]]\nplace = "{other}"\ncommand_config = "b"\n'
    plan = plan_from_file(written(tmp_path, text))
    assert [side.command_config for side in (plan.left, *plan.rights)] == ["a", "b"]
    with pytest.raises(ConfigError, match="both say how to connect"):
        plan_from_file(written(tmp_path, text.replace("two", "one"))).with_command_config("login")
