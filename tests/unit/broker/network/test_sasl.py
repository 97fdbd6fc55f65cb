"""PLAIN and SCRAM as state machines: the RFC's own example, and everything that must be refused alike."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.metadata.cluster_state import CredentialSet
from semel.broker.network.sasl import (
    MECHANISMS,
    PLAIN,
    AuthenticationFailed,
    Authenticator,
    Credentials,
    SaslExchange,
    StoredCredentials,
)
from semel.broker.network.scram import (
    SCRAM_HASHES,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramExchange,
    ScramRefused,
    credential_of,
    salt_password,
)
from semel.errors import ConfigError
from semel.world.rng import SeededRng

PASSWORD = "pencil, =café"
USER = "al=i,ce"
SCRAM = tuple(SCRAM_HASHES)
NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1, max_size=20)


def authenticator(users: Mapping[str, str] | None = None, *, seed: int = 7) -> Authenticator:
    return Authenticator(Credentials(users=users or {USER: PASSWORD}), SeededRng(seed), b"the cluster's own")


class ScramClient:
    """The client's half, written from the RFC and apart from the code under test."""

    def __init__(self, mechanism: str, user: str, password: str, *, binding: str = "biws", nonce: str = "") -> None:
        self.hash = SCRAM_HASHES[mechanism]
        self.password = password.encode()
        self.binding, self.nonce = binding, nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        self.first_bare = f"n={name},r=clientnonce"

    def first(self) -> bytes:
        return f"n,,{self.first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        fields = dict(field.split("=", 1) for field in server_first.decode().split(","))
        assert fields["r"].startswith("clientnonce")
        assert len(fields["r"]) > len("clientnonce") + 20
        salted = hashlib.pbkdf2_hmac(self.hash, self.password, base64.b64decode(fields["s"]), int(fields["i"]))
        unproven = f"c={self.binding},r={self.nonce or fields['r']}"
        signed = f"{self.first_bare},{server_first.decode()},{unproven}".encode()
        client_key = hmac.digest(salted, b"Client Key", self.hash)
        signature = hmac.digest(hashlib.new(self.hash, client_key).digest(), signed, self.hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self.hash)
        self.expected = b"v=" + base64.b64encode(hmac.digest(server_key, signed, self.hash))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()


def run_scram(exchange: SaslExchange, client: ScramClient) -> None:
    answer = exchange.step(client.final(exchange.step(client.first())))
    assert answer == client.expected
    assert exchange.done


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salt_password(SCRAM_SHA_256, "pencil", salt, 4096)
    credential = credential_of("user", SCRAM_SHA_256, salted, salt=salt, iterations=4096)
    exchange = ScramExchange(SCRAM_SHA_256, lambda _: (credential, True), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    proof = f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.step(proof.encode()) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (exchange.done, exchange.user) == (True, "user")


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_proves_both_sides(mechanism: str) -> None:
    exchange = authenticator().begin(mechanism, {})
    run_scram(exchange, ScramClient(mechanism, USER, PASSWORD))
    assert exchange.user == USER


@given(user=NAMES, password=NAMES)
def test_any_name_and_password_can_be_proven_by_plain(user: str, password: str) -> None:
    exchange = authenticator({user: password}).begin(PLAIN, {})
    assert exchange.step(f"\0{user}\0{password}".encode()) == b""
    assert (exchange.done, exchange.user) == (True, user)


def failure(exchange: SaslExchange, *tokens: bytes) -> str:
    *before, last = tokens
    for token in before:
        exchange.step(token)
    with pytest.raises(AuthenticationFailed) as caught:
        exchange.step(last)
    assert not exchange.done
    assert caught.value.code == 58
    return caught.value.summary


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_refuses_an_unknown_user_as_it_refuses_a_wrong_password(mechanism: str) -> None:
    texts = []
    for user, password in ((USER, "wrong"), ("nobody", PASSWORD)):
        exchange, client = authenticator().begin(mechanism, {}), ScramClient(mechanism, user, password)
        challenge = exchange.step(client.first())
        assert b",i=4096" in challenge
        texts.append(failure(exchange, client.final(challenge)))
    expected = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    assert texts == [expected, expected]


def test_a_decoy_keeps_its_salt_and_looks_like_any_other() -> None:
    checks = authenticator()
    salts = []
    for user in ("nobody", "nobody", "noone", USER):
        answer = checks.begin(SCRAM_SHA_512, {}).step(ScramClient(SCRAM_SHA_512, user, "x").first()).decode()
        salts.append(answer.split(",s=")[1])
    assert salts[0] == salts[1]
    assert len(set(salts)) == 3
    assert len({len(salt) for salt in salts}) == 1


def shape_of(checks: Authenticator, user: str, stored: StoredCredentials) -> tuple[str, int, str]:
    answer = checks.begin(SCRAM_SHA_512, stored).step(ScramClient(SCRAM_SHA_512, user, "x").first()).decode()
    salt, _, iterations = answer.split(",s=")[1].partition(",i=")
    return salt, len(base64.b64decode(salt)), iterations


def test_a_decoy_has_the_shape_of_somebody_whatever_shapes_there_are() -> None:
    shapes = [(24, 8192), (40, 16384), (24, 4096)]
    stored = {
        (f"u{number}", SCRAM_SHA_512): credential_of(
            f"u{number}", SCRAM_SHA_512, b"p", salt=bytes(size), iterations=iterations
        )
        for number, (size, iterations) in enumerate(shapes)
    }
    checks = authenticator()
    seen = {shape_of(checks, f"nobody-{number}", stored)[1:] for number in range(200)}
    assert seen == {(size, str(iterations)) for size, iterations in [*shapes, (16, 4096)]}


def test_salts_are_the_same_after_a_restart_for_those_who_exist_and_those_who_do_not() -> None:
    first, again = authenticator(seed=1), authenticator(seed=2)
    for user in (USER, "nobody"):
        assert shape_of(first, user, {}) == shape_of(again, user, {})
    other = Authenticator(Credentials(users={USER: PASSWORD}), SeededRng(1), b"another cluster")
    assert shape_of(other, "nobody", {})[0] != shape_of(first, "nobody", {})[0]


def test_nobody_can_prove_a_decoy_even_with_its_keys() -> None:
    secret = credential_of("x", SCRAM_SHA_256, b"known", salt=b"salt", iterations=4096)
    exchange = ScramExchange(SCRAM_SHA_256, lambda _: (secret, False), "servernonceservernonce")
    client = ScramClient(SCRAM_SHA_256, "x", "x")
    server_first = exchange.step(client.first())
    unproven = f"c=biws,r={dict(f.split('=', 1) for f in server_first.decode().split(','))['r']}"
    signed = f"{client.first_bare},{server_first.decode()},{unproven}".encode()
    client_key = hmac.digest(b"known", b"Client Key", "sha256")
    signature = hmac.digest(secret.stored_key, signed, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    with pytest.raises(ScramRefused, match="does not fit"):
        exchange.step(f"{unproven},p={proof}".encode())


def test_plain_refuses_an_unknown_user_as_it_refuses_a_wrong_password() -> None:
    tokens = (f"\0{USER}\0wrong".encode(), f"\0nobody\0{PASSWORD}".encode(), b"\0nobody\0x")
    texts = {failure(authenticator().begin(PLAIN, {}), token) for token in tokens}
    assert texts == {"Authentication failed: Invalid username or password"}


def test_nobody_is_known_by_an_empty_password() -> None:
    assert not authenticator().knows("nobody", "")
    assert authenticator().knows(USER, PASSWORD)


@pytest.mark.parametrize("token", [b"", b"\0", b"\0a\0", b"\0\0b", b"\0a\0b\0c", b"\0\xff\0b", b"no separators"])
def test_plain_refuses_other_forms(token: bytes) -> None:
    assert "SASL mechanism PLAIN" in failure(authenticator().begin(PLAIN, {}), token)


def test_nobody_may_act_as_somebody_else() -> None:
    token = f"root\0{USER}\0{PASSWORD}".encode()
    assert "different from username" in failure(authenticator().begin(PLAIN, {}), token)
    assert failure(authenticator().begin(SCRAM_SHA_256, {}), b"n,a=root,n=alice,r=x")
    exchange = authenticator().begin(PLAIN, {})
    exchange.step(f"{USER}\0{USER}\0{PASSWORD}".encode())
    assert exchange.done


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=x",
        b"n,,n=alice,r=a b",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,m=must,n=alice,r=x",
        b"n,,n=\xff,r=x",
        b"x" * 100_000,
    ],
)
def test_scram_refuses_other_first_messages(first: bytes) -> None:
    assert failure(authenticator().begin(SCRAM_SHA_256, {}), first)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"c=biws", b"c=eSws"),
        (b"c=biws", b"c=%%%%"),
        (b"r=clientnonce", b"r=othernonce"),
        (b",p=", b",x=1,p="),
        (b",p=", b",p=AAAA"),
        (b",p=", b",q="),
        (b"c=biws,", b""),
    ],
)
def test_scram_refuses_a_final_message_that_was_changed(before: bytes, after: bytes) -> None:
    exchange, client = authenticator().begin(SCRAM_SHA_256, {}), ScramClient(SCRAM_SHA_256, USER, PASSWORD)
    final = client.final(exchange.step(client.first()))
    assert before in final
    assert failure(exchange, final.replace(before, after, 1))


@pytest.mark.parametrize("changed", [{"binding": "eSws"}, {"nonce": "clientnonceandmore"}])
def test_scram_refuses_another_binding_or_nonce_even_with_the_right_password(changed: dict[str, str]) -> None:
    exchange = authenticator().begin(SCRAM_SHA_256, {})
    client = ScramClient(SCRAM_SHA_256, USER, PASSWORD, **changed)
    assert failure(exchange, client.final(exchange.step(client.first())))


def test_a_finished_exchange_takes_no_second_proof() -> None:
    exchange, client = authenticator().begin(SCRAM_SHA_256, {}), ScramClient(SCRAM_SHA_256, USER, PASSWORD)
    final = client.final(exchange.step(client.first()))
    exchange.step(final)
    with pytest.raises(AuthenticationFailed):
        exchange.step(final)


def test_nonces_differ() -> None:
    checks = authenticator()
    first = ScramClient(SCRAM_SHA_256, USER, PASSWORD).first()
    assert len({checks.begin(SCRAM_SHA_256, {}).step(first) for _ in range(20)}) == 20


def test_a_stored_credential_goes_before_a_declared_one() -> None:
    salted = salt_password(SCRAM_SHA_512, "newer", b"pepper", 8192)
    newer = credential_of(USER, SCRAM_SHA_512, salted, salt=b"pepper", iterations=8192)
    stored: dict[tuple[str, str], CredentialSet] = {(USER, SCRAM_SHA_512): newer}
    run_scram(authenticator().begin(SCRAM_SHA_512, stored), ScramClient(SCRAM_SHA_512, USER, "newer"))
    client = ScramClient(SCRAM_SHA_512, USER, PASSWORD)
    exchange = authenticator().begin(SCRAM_SHA_512, stored)
    assert failure(exchange, client.final(exchange.step(client.first())))


def test_passwords_are_not_kept_and_not_shown() -> None:
    credentials = Credentials(users={USER: "topsecret"})
    assert "topsecret" not in repr(credentials)
    assert "topsecret" not in repr(vars(Authenticator(credentials, SeededRng(1), b"")))


@pytest.mark.parametrize("mechanisms", [(), ("GSSAPI",), (PLAIN, "SCRAM-SHA-1"), "PLAIN"])
def test_mechanisms_that_do_not_exist_are_refused(mechanisms: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="mechanisms") as caught:
        Credentials(users={"a": "b"}, mechanisms=mechanisms)
    assert all(mechanism in caught.value.you_want for mechanism in MECHANISMS)


@pytest.mark.parametrize(("user", "password"), [("", "x"), ("x", ""), ("a\0b", "x"), ("x", "a\0b")])
def test_names_and_passwords_that_nobody_could_send_are_refused(user: str, password: str) -> None:
    with pytest.raises(ConfigError, match="name and password"):
        Credentials(users={user: password})
