"""The error tree: every class crosses a process border whole, and every text says what to do."""

import importlib
import inspect
import json
import pickle
import pkgutil
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import semel
from semel import errors
from semel.errors import (
    BrokerError,
    ConfigError,
    ConnectionFailure,
    CorruptBatchError,
    FencedError,
    GuaranteeError,
    MissingExtraError,
    Outcome,
    OutcomeUnknownError,
    ProtocolError,
    SemelError,
    SinkError,
    install_command,
)
from semel.protocol.error_codes import ErrorCode
from semel.wire.topology import TopicPartition


def walk(cls: type[SemelError]) -> Iterator[type[SemelError]]:
    yield cls
    for below in cls.__subclasses__():
        yield from walk(below)


def load_every_module() -> None:
    """Errors are defined in many places; a class that no module of this run has loaded would not be looked at."""
    for module in pkgutil.walk_packages(semel.__path__, "semel."):
        if not module.name.startswith(("semel.__main__", "semel.spark.daemon")):
            importlib.import_module(module.name)


load_every_module()
OWN = [cls for cls in walk(SemelError) if cls.__module__.startswith("semel")]
ALL = sorted(set(OWN), key=lambda cls: cls.__qualname__)


def filled(cls: type[SemelError]) -> SemelError:
    """Build an error with every field of its constructor set to something that is not the default."""
    values: dict[str, object] = {
        "summary": "it went wrong",
        "message": "it went wrong",
        "outcome": Outcome.HAPPENED,
        "code": ErrorCode.INVALID_PRODUCER_EPOCH,
        "partition": 3,
        "offset": 99,
        "rule": "S014",
        "bad_records": (1, 2),
    }
    positional, named = [], {}
    for parameter in inspect.signature(cls).parameters.values():
        value = values.get(parameter.name, f"the {parameter.name}")
        if "TopicPartition" in str(parameter.annotation):
            value = TopicPartition("orders", 3)
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional.append(value)
    return cls(*positional, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_error_survives_pickling_with_all_its_fields(cls: type[SemelError]) -> None:
    error = filled(cls)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert again.__dict__ == error.__dict__
    assert str(again) == str(error)
    assert again.args == error.args


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_error_shows_its_summary_and_the_next_command(cls: type[SemelError]) -> None:
    text = str(filled(cls))
    parameters = inspect.signature(cls).parameters
    if "summary" in parameters or "message" in parameters:
        assert "it went wrong" in text.splitlines()[0]
    if "next_command" in parameters:
        assert text.splitlines()[-1].split() == ["next", "the", "next_command"]


def test_the_module_docstring_draws_the_whole_tree() -> None:
    own = [cls for cls in ALL if cls.__module__ == "semel.errors"]
    assert errors.__doc__ is not None
    assert [cls.__name__ for cls in own if cls.__name__ not in errors.__doc__] == []


def test_only_the_lines_that_have_something_to_say_are_printed() -> None:
    assert str(SemelError("plain")) == "plain"
    error = ConfigError("acks is 1", you_wrote="acks=1", you_want="acks=all", because="one copy can be lost")
    assert str(error) == ("acks is 1\n  you wrote   acks=1\n  you want    acks=all\n  because     one copy can be lost")


def test_a_guarantee_error_leads_to_the_explanation_of_its_rule() -> None:
    error = GuaranteeError("no ledger", rule="S014")
    assert str(error) == "S014: no ledger\n  next        semel explain S014"


def test_a_missing_extra_names_the_command_that_brings_it() -> None:
    error = MissingExtraError.of("delta", "the Delta Lake sink")
    assert str(error).splitlines()[0] == "the Delta Lake sink needs the extra 'delta'"
    assert error.next_command == install_command("delta")


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, 'pip install "semel[delta]"'),
        ({"url": "file:///a%20b/semel", "dir_info": {}}, 'pip install "/a b/semel[delta]"'),
        ({"url": "file:///a/semel", "dir_info": {"editable": True}}, 'pip install -e "/a/semel[delta]"'),
        (
            {"url": "https://example.org/semel", "vcs_info": {"vcs": "git", "commit_id": "1"}},
            'pip install "semel[delta] @ git+https://example.org/semel"',
        ),
    ],
)
def test_an_extra_is_installed_the_way_semel_was(origin: object, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    assert install_command("delta") == command
    assert install_command("delta", upgrade=True) == command.replace("install", "install --upgrade", 1)


def test_a_protocol_error_says_where_as_far_as_it_is_known() -> None:
    assert str(ProtocolError("short")) == "short"
    assert str(CorruptBatchError("bad CRC", topic="t", partition=0, offset=0)) == (
        "bad CRC (topic t, partition 0, offset 0)"
    )
    assert str(CorruptBatchError("bad CRC", offset=7)) == "bad CRC (offset 7)"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (SemelError("x"), Outcome.DID_NOT_HAPPEN),
        (SinkError("x"), Outcome.DID_NOT_HAPPEN),
        (FencedError("x", code=90), Outcome.DID_NOT_HAPPEN),
        (ConnectionFailure("x"), Outcome.UNKNOWN),
        (OutcomeUnknownError("x"), Outcome.UNKNOWN),
        (BrokerError("x", code=7, outcome=Outcome.UNKNOWN), Outcome.UNKNOWN),
        (ConnectionFailure("x", outcome=Outcome.DID_NOT_HAPPEN), Outcome.DID_NOT_HAPPEN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, SemelError) else None,
)
def test_outcome_is_the_class_default_unless_it_is_known_better(error: SemelError, outcome: Outcome) -> None:
    assert error.outcome is outcome


def test_an_unknown_outcome_is_said_in_the_first_line() -> None:
    assert str(OutcomeUnknownError("no answer to EndTxn")) == "no answer to EndTxn (it may have happened)"
    assert "may have happened" not in str(SinkError("refused"))
