"""Files of settings: Java properties, JSON, a Python dict; and what is wrong with them, without their values."""

from pathlib import Path

import pytest

from semel.check.gathering.files import parse_properties, read_clients, read_file, read_queries
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
    found = parse_properties(PROPERTIES, "f")
    assert found.lines == {"acks": 4, "client.id": 5, "sasl.jaas.config": 6, "empty": 8}
    assert found.values == {
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
    (client,) = read_clients(path, "sarama")
    assert client.settings.library.name == "java"
    assert client.settings.roles == {Role.PRODUCER}
    assert client.settings.text("acks") == "1"
    assert client.name == path


def test_the_library_of_the_command_line_holds_for_a_file_that_names_none(tmp_path: Path) -> None:
    (client,) = read_clients(written(tmp_path, "client.id=app\n"), "aiokafka")
    assert client.settings.library.name == "aiokafka"


def test_options_of_a_query(tmp_path: Path) -> None:
    (query,) = read_queries(
        written(tmp_path, '{"failOnDataLoss": false, "assign": {"t": [0]}, "maxOffsetsPerTrigger": 5}')
    )
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
        read_clients(written(tmp_path, "semel.role=admin\n"))


def test_an_option_that_should_be_a_number(tmp_path: Path) -> None:
    (query,) = read_queries(written(tmp_path, "maxOffsetsPerTrigger=many\n"))
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger"):
        query.number("maxOffsetsPerTrigger")


@pytest.mark.parametrize("text", ["", "  \n\n"])
def test_an_empty_file_is_no_client_with_defaults(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="is empty"):
        read_clients(written(tmp_path, text))


@pytest.mark.parametrize("text", ["# all of it is a comment\n", "{}", "{ }\n"])
def test_a_file_without_settings_is_no_client_with_defaults(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="has no settings"):
        read_clients(written(tmp_path, text))


@pytest.mark.parametrize(("text", "library"), [("{'acks': '1'}", "librdkafka"), ('{"acks": "1"}', "java")])
def test_a_python_dict_is_not_a_java_client(tmp_path: Path, text: str, library: str) -> None:
    (client,) = read_clients(written(tmp_path, text))
    assert client.settings.library.name == library
    assert client.because


def test_the_line_of_a_setting(tmp_path: Path) -> None:
    for text in ('{\n "acks": "1"\n}', "# a comment\nacks=1\n"):
        path = written(tmp_path, text)
        (client,) = read_clients(path)
        place = client.place_of(["acks"])
        assert place is not None
        assert (place.file, place.line) == (path, 2)


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "settings").write_bytes(b"\xef\xbb\xbfacks=1\n")
    (client,) = read_clients(str(tmp_path / "settings"))
    assert client.settings.text("acks") == "1"


def test_a_file_that_is_not_utf_8_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "settings").write_bytes(b"acks=1\nclient.id=caf\xe9 hush\n")
    with pytest.raises(ConfigError, match=r"settings:2 cannot be read: not UTF-8"):
        read_clients(str(tmp_path / "settings"))


def test_a_device_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(ConfigError, match="larger"):
        read_file("/dev/zero")
