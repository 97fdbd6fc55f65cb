"""SASL tokens against the published exchanges, and against brokers that lie."""

import base64
import secrets

import pytest

from semel.errors import BrokerError, ConfigError
from semel.wire.sasl import exchange_for
from semel.wire.security import SaslMechanism, SaslSettings

SECRET = "pencil"


def scram(mechanism: str = "SCRAM-SHA-256", username: str = "user") -> SaslSettings:
    return SaslSettings(mechanism=SaslMechanism(mechanism), username=username, password=SECRET)


@pytest.fixture
def nonce(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: "rOprNGfwEbeRWgbNEkqO")
    return "rOprNGfwEbeRWgbNEkqO"


SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def test_plain() -> None:
    exchange = exchange_for(SaslSettings(mechanism=SaslMechanism.PLAIN, username="tim", password="tanstaaf"))
    assert next(exchange) == b"\0tim\0tanstaaf"
    with pytest.raises(StopIteration):
        exchange.send(b"")


def test_scram_as_in_rfc_7677(nonce: str) -> None:
    exchange = exchange_for(scram())
    assert next(exchange) == f"n,,n=user,r={nonce}".encode()
    final = exchange.send(SERVER_FIRST)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        exchange.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_names_are_escaped() -> None:
    assert next(exchange_for(scram(username="a=b,c"))).startswith(b"n,,n=a=3Db=2Cc,r=")


@pytest.mark.parametrize(
    "answer",
    [
        b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        b"v=" + base64.b64encode(b"\0" * 32),
        b"v=!",
        b"v=abc",
        b"e=other-error",
        b"",
        b"\xff",
    ],
)
@pytest.mark.usefixtures("nonce")
def test_a_broker_that_does_not_know_the_password_is_refused(answer: bytes) -> None:
    exchange = exchange_for(scram())
    next(exchange)
    exchange.send(SERVER_FIRST)
    with pytest.raises(BrokerError) as refused:
        exchange.send(answer)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "answer",
    [
        SERVER_FIRST.replace(b"rOpr", b"xOpr"),
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        SERVER_FIRST.replace(b"4096", b"4095"),
        SERVER_FIRST.replace(b"4096", b"2147483647"),
        SERVER_FIRST.replace(b"4096", b"0"),
        SERVER_FIRST.replace(b"gQ==", b"g="),
        b"e=unknown-user",
        b"\xff",
        b"",
    ],
)
@pytest.mark.usefixtures("nonce")
def test_a_first_message_that_proves_nothing_is_refused(answer: bytes) -> None:
    exchange = exchange_for(scram())
    next(exchange)
    with pytest.raises(BrokerError, match="broker"):
        exchange.send(answer)


def test_nonces_differ() -> None:
    assert next(exchange_for(scram())) != next(exchange_for(scram()))


def good_token() -> str:
    return "abc.def-_~+/="


def no_token() -> None:
    return None


def two_lines() -> str:
    return "abc\1auth=Bearer x"


def failing() -> str:
    raise RuntimeError(SECRET)


def oauth(function: str) -> SaslSettings:
    return SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, token_source=f"{__name__}:{function}")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or __import__(__name__))


def test_oauth_token() -> None:
    exchange = exchange_for(oauth("good_token"))
    assert next(exchange) == b"n,,\1auth=Bearer abc.def-_~+/=\1\1"
    with pytest.raises(StopIteration):
        exchange.send(b"")


def test_a_refused_oauth_token_says_why() -> None:
    exchange = exchange_for(oauth("good_token"))
    next(exchange)
    assert exchange.send(b'{"status":"invalid_token"}') == b"\1"
    with pytest.raises(BrokerError, match="invalid_token"):
        exchange.send(b"")


@pytest.mark.parametrize("function", ["no_token", "two_lines", "failing", "missing"])
def test_a_token_source_that_gives_none_is_named_without_its_error(function: str) -> None:
    with pytest.raises(ConfigError, match=function) as refused:
        next(exchange_for(oauth(function)))
    assert SECRET not in str(refused.value)
