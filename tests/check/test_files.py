"""Files of settings: Java properties, JSON, a Python dict; and what is wrong with them, without their values."""

from pathlib import Path

import pytest

from semel.check.gathering.files import parse_properties, read_client, read_file, read_query
from semel.clients.setting_names import Role
from semel.errors import ConfigError


def written(folder: Path, text: str) -> str:
    path = folder / "settings"
    path.write_text(text)
    return str(path)


PROPERTIES = """
# a comment
! another
acks = all
client.id: app
sasl.jaas.config=module required \\
    username="u";
empty=
"""


def test_properties() -> None:
    assert parse_properties(PROPERTIES, "f") == {
        "acks": "all",
        "client.id": "app",
        "sasl.jaas.config": 'module required username="u";',
        "empty": "",
    }


@pytest.mark.parametrize("text", ['{"acks": "all", "retries": 3}', "{'acks': 'all', 'retries': 3}"])
def test_a_dict(tmp_path: Path, text: str) -> None:
    assert read_file(written(tmp_path, text)) == {"acks": "all", "retries": 3}


def test_a_file_says_what_it_is_for(tmp_path: Path) -> None:
    path = written(tmp_path, "semel.library=java@2.8\nsemel.role=producer\nclient.id=app\n")
    client = read_client(path, "sarama")
    assert client.settings.library.name == "java"
    assert client.settings.roles == {Role.PRODUCER}
    assert client.settings.text("acks") == "1"
    assert client.name == path


def test_the_library_of_the_command_line_holds_for_a_file_that_names_none(tmp_path: Path) -> None:
    assert read_client(written(tmp_path, "client.id=app\n"), "aiokafka").settings.library.name == "aiokafka"


def test_options_of_a_query(tmp_path: Path) -> None:
    query = read_query(written(tmp_path, '{"failOnDataLoss": false, "assign": {"t": [0]}, "maxOffsetsPerTrigger": 5}'))
    assert query.text("failOnDataLoss") == "false"
    assert query.text("assign") == '{"t": [0]}'
    assert query.number("maxOffsetsPerTrigger") == 5


@pytest.mark.parametrize(
    "text",
    [
        "no sign at all, hush",
        "{not a dict: hush",
        "{1: 'hush'}",
        "{'acks': __import__('os').getcwd()} # hush",
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_file(written(tmp_path, text))
    assert "hush" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_file(str(tmp_path / "nothing"))


def test_a_folder_bytes_and_a_blob(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_file(str(tmp_path))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_file(str(tmp_path / "bytes"))
    (tmp_path / "blob").write_bytes(b"a=b\n" * 300_000)
    with pytest.raises(ConfigError, match="larger"):
        read_file(str(tmp_path / "blob"))


def test_a_role_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"semel\.role"):
        read_client(written(tmp_path, "semel.role=admin\n"))


def test_an_option_that_should_be_a_number(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger"):
        read_query(written(tmp_path, "maxOffsetsPerTrigger=many\n")).number("maxOffsetsPerTrigger")
