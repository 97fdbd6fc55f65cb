"""Settings: every option that is understood, the reason why another is not, and no secret in any text."""

import pickle
from pathlib import Path

import pytest

from semel.errors import ConfigError
from semel.wire.option_names import CONNECTION, READING, REFUSED, SAME, TUNING, WRITING
from semel.wire.security import SaslMechanism, SaslSettings, SecurityProtocol, TlsSettings
from semel.wire.settings import WireSettings

SECRET = "top-5ecret"
BOOTSTRAP = {"kafka.bootstrap.servers": "localhost:9092"}
PLAIN_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required\n"
    f'  username="alice" password="{SECRET}\\"\\\\;" ;'
)


def settings(**options: str) -> WireSettings:
    return WireSettings.from_options(BOOTSTRAP | {f"kafka.{name.replace('_', '.')}": v for name, v in options.items()})


def sasl(**options: str) -> SaslSettings | None:
    return settings(security_protocol="SASL_PLAINTEXT", **options).sasl


def tls(**options: str) -> TlsSettings | None:
    return settings(security_protocol="SSL", **options).tls


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("localhost:9092", (("localhost", 9092),)),
        (" a:1 , b:2,", (("a", 1), ("b", 2))),
        ("[::1]:9092", (("::1", 9092),)),
        ("SSL://kafka-1.example:9093", (("kafka-1.example", 9093),)),
        ("a:1,a:1", (("a", 1),)),
    ],
)
def test_addresses_are_read(text: str, wanted: tuple[tuple[str, int], ...]) -> None:
    assert WireSettings.from_options({"kafka.bootstrap.servers": text}).bootstrap == wanted


@pytest.mark.parametrize(
    "text", ["", ",", "localhost", "localhost:0", "localhost:65536", "::1:9092", "a b:1", ":1", "a:x"]
)
def test_addresses_that_lead_nowhere_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        WireSettings.from_options({"kafka.bootstrap.servers": text})


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("Security.Protocol", "kafka.security.protocol"),
        ("sasl.password", "kafka.sasl.password"),
        ("sasl.pasword", "kafka.sasl.password"),
        ("kafkasasl.password", "kafka.sasl.password"),
        ("subscribe", ""),
    ],
)
def test_a_name_without_its_prefix_is_refused_and_spelt_out(name: str, wanted: str) -> None:
    with pytest.raises(ConfigError, match=rf"option {name.lower()} (needs a prefix|is unknown)") as refused:
        WireSettings.from_options(BOOTSTRAP | {name: SECRET})
    assert refused.value.you_want == wanted
    assert SECRET not in str(refused.value)


def test_a_name_that_is_given_twice() -> None:
    with pytest.raises(ConfigError, match="given twice") as refused:
        WireSettings.from_options(BOOTSTRAP | {"kafka.sasl.password": SECRET, "KAFKA.sasl.Password": SECRET + "2"})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", sorted(CONNECTION - {"ssl.endpoint.identification.algorithm"}))
@pytest.mark.parametrize("nothing", ["", " ", None])
def test_a_value_that_is_missing(name: str, nothing: str | None) -> None:
    with pytest.raises(ConfigError, match=rf"kafka\.{name}"):
        WireSettings.from_options(BOOTSTRAP | {f"kafka.{name}": nothing})


def test_values_need_not_be_text() -> None:
    assert WireSettings.from_options(BOOTSTRAP | {"kafka.request.timeout.ms": 5}).request_timeout_ms == 5


def test_names_are_text() -> None:
    with pytest.raises(ConfigError, match="name of an option is text"):
        WireSettings.from_options(BOOTSTRAP | {7: "x"})  # type: ignore[dict-item]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_two_names_of_one_setting(first: str, second: str) -> None:
    with pytest.raises(ConfigError, match="given both") as refused:
        settings(security_protocol="SASL_SSL", **{first: SECRET, second: SECRET})
    assert SECRET not in str(refused.value)


def test_names_may_come_in_any_case() -> None:
    assert WireSettings.from_options({"Kafka.Bootstrap.Servers": "a:1", "KAFKA.CLIENT.ID": "me"}).client_id == "me"


def test_numbers_are_read() -> None:
    read = settings(
        request_timeout_ms="5", retry_backoff_ms="6", default_api_timeout_ms="7", receive_message_max_bytes="8"
    )
    assert (read.request_timeout_ms, read.retry_backoff_ms, read.api_timeout_ms, read.answer_bytes_max) == (5, 6, 7, 8)


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "soon", "99999999999", "²"])
def test_numbers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.request\.timeout\.ms"):
        settings(request_timeout_ms=text)


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.server is unknown") as refused:
        WireSettings.from_options(BOOTSTRAP | {"kafka.bootstrap.server": SECRET})
    assert refused.value.you_want == "kafka.bootstrap.servers"
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", sorted(READING | WRITING | TUNING | REFUSED.keys()))
def test_what_cannot_work_is_refused_with_a_reason(name: str) -> None:
    with pytest.raises(ConfigError, match="not supported") as refused:
        settings(**{name: SECRET})
    assert refused.value.because
    assert SECRET not in str(refused.value)


def test_each_option_is_on_one_list() -> None:
    lists = [CONNECTION, READING, WRITING, TUNING, frozenset(REFUSED)]
    assert sum(map(len, lists)) == len(frozenset().union(*lists))


@pytest.mark.parametrize("protocol", list(SecurityProtocol))
def test_protocols(protocol: SecurityProtocol) -> None:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "b"} if protocol.authenticated else {}
    read = settings(security_protocol=protocol.lower(), **login)
    assert (read.protocol, read.tls is not None, read.sasl is not None) == (
        protocol,
        "SSL" in protocol,
        "SASL" in protocol,
    )


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="TLS"):
        settings(security_protocol="TLS")


@pytest.mark.parametrize(
    ("name", "protocol"),
    [("sasl.username", "SSL"), ("ssl.ca.location", "SASL_PLAINTEXT"), ("ssl.ca.location", "PLAINTEXT")],
)
def test_protection_that_would_have_no_effect_is_refused(name: str, protocol: str) -> None:
    with pytest.raises(ConfigError, match="no effect"):
        settings(
            **{"security_protocol": protocol, "sasl_mechanism": "PLAIN", name: "x"}
            if "SASL" in protocol
            else {"security_protocol": protocol, name: "x"}
        )


@pytest.mark.parametrize("name", sorted(name for name in CONNECTION if name.startswith(("sasl.", "ssl."))))
def test_credentials_without_a_protocol_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"kafka\.{name} has no effect without kafka\.security\.protocol") as refused:
        settings(**{name: SECRET})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("mechanism", "name"),
    [
        ("OAUTHBEARER", "sasl.username"),
        ("OAUTHBEARER", "sasl.password"),
        ("OAUTHBEARER", "sasl.jaas.config"),
        ("PLAIN", "sasl.login.callback.handler.class"),
    ],
)
def test_a_login_that_the_mechanism_does_not_use(mechanism: str, name: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"kafka\.{name} has no effect with kafka\.sasl\.mechanism={mechanism}"
    ) as refused:
        sasl(sasl_mechanism=mechanism, **{name: SECRET})
    assert SECRET not in str(refused.value)


def test_a_key_password_without_a_key() -> None:
    with pytest.raises(ConfigError, match="no effect without a private key"):
        tls(ssl_key_password=SECRET)


@pytest.mark.parametrize("store", ["ssl_truststore", "ssl_keystore"])
def test_a_kind_of_store_that_only_java_reads(store: str) -> None:
    with pytest.raises(ConfigError, match="only Java reads"):
        tls(**{f"{store}_type": "JKS"})


@pytest.mark.parametrize("name", ["sasl_mechanism", "sasl_mechanisms"])
def test_user_and_password_by_their_own_options(name: str) -> None:
    wanted = SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_512, username="alice", password=SECRET)
    assert sasl(**{name: "scram-sha-512"}, sasl_username="alice", sasl_password=SECRET) == wanted


def test_user_and_password_by_jaas() -> None:
    read = sasl(sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN_JAAS)
    assert read == SaslSettings(mechanism=SaslMechanism.PLAIN, username="alice", password=SECRET + '"\\;')


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f'x.PlainLoginModule required username="a" password="{SECRET}"',
        f'x.PlainLoginModule required username="a" password="{SECRET};',
        f'x.PlainLoginModule required username="a" "{SECRET}";',
        f'x.PlainLoginModule needed username="a" password="{SECRET}";',
        f'x.ScramLoginModule required username="a" password="{SECRET}" tokenauth="true";',
        f'x.Krb5LoginModule required username="a" password="{SECRET}";',
        f'x.PlainLoginModule required password="{SECRET}";',
        f'x.PlainLoginModule required username="{SECRET}";',
    ],
)
def test_jaas_that_cannot_be_used_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        sasl(sasl_mechanism="PLAIN", sasl_jaas_config=text)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value.__dict__)


def test_unquoted_jaas_values() -> None:
    read = sasl(sasl_mechanism="PLAIN", sasl_jaas_config="PlainLoginModule required username=a password=b;")
    assert read == SaslSettings(mechanism=SaslMechanism.PLAIN, username="a", password="b")


@pytest.mark.parametrize("mechanism", ["", "GSSAPI"])
def test_other_mechanisms_are_refused(mechanism: str) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.mechanism"):
        sasl(sasl_mechanism=mechanism, sasl_username="a", sasl_password="b")


def test_a_token_comes_from_an_importable_function() -> None:
    read = sasl(sasl_mechanism="OAUTHBEARER", **{"sasl.login.callback.handler.class": "pkg.tokens:fresh"})
    assert read == SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, token_source="pkg.tokens:fresh")


@pytest.mark.parametrize("source", ["org.example.TokenHandler", "pkg:", ":f", "a b:c", "pkg:f()"])
def test_a_token_source_that_cannot_be_imported_is_refused(source: str) -> None:
    with pytest.raises(ConfigError, match="OAUTHBEARER"):
        sasl(sasl_mechanism="OAUTHBEARER", **{"sasl.login.callback.handler.class": source})


def test_pem_files_by_both_families_of_names() -> None:
    assert tls(ssl_ca_location="ca.pem", ssl_certificate_location="c.pem", ssl_key_location="k.pem") == TlsSettings(
        ca_file="ca.pem", certificate_file="c.pem", key_file="k.pem"
    )
    assert tls(
        ssl_truststore_location="ca.pem", ssl_keystore_location="both.pem", ssl_key_password=SECRET
    ) == TlsSettings(ca_file="ca.pem", certificate_file="both.pem", key_file="both.pem", key_password=SECRET)


@pytest.mark.parametrize("store", ["ssl_truststore", "ssl_keystore"])
def test_java_stores_are_refused_with_the_command_that_converts_them(store: str, tmp_path: Path) -> None:
    binary = tmp_path / "store"
    binary.write_bytes(b"\xfe\xed\xfe\xed")
    for options in (
        {f"{store}_location": "s.jks"},
        {f"{store}_location": str(binary)},
        {f"{store}_location": "s.pem", f"{store}_type": "PKCS12"},
    ):
        with pytest.raises(ConfigError, match="only Java reads") as refused:
            tls(**options)
        assert options[f"{store}_location"] in refused.value.next_command


def test_half_a_client_certificate_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs its key"):
        tls(ssl_certificate_location="c.pem")


@pytest.mark.parametrize(("text", "checked"), [("https", True), ("HTTPS", True), ("", False), ("none", False)])
def test_the_host_name_check(text: str, checked: bool) -> None:
    read = tls(ssl_endpoint_identification_algorithm=text)
    assert read is not None
    assert read.check_host is checked


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ssl_endpoint_identification_algorithm", "ldaps"),
        ("ssl_enabled_protocols", "TLSv1"),
        ("ssl_enabled_protocols", "TLSv1.2"),
        ("ssl_enabled_protocols", ""),
    ],
)
def test_tls_options_that_mean_nothing_are_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.ssl"):
        tls(**{name: text})


def test_tls_1_3_only() -> None:
    assert tls(ssl_enabled_protocols="TLSv1.3") == TlsSettings(tls13_only=True)


def test_settings_reach_a_task_unchanged_and_show_no_secret() -> None:
    read = settings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password=SECRET,
        ssl_key_password=SECRET,
        ssl_keystore_location="both.pem",
        ssl_ca_pem=f"-----BEGIN {SECRET}",
    )
    assert pickle.loads(pickle.dumps(read)) == read
    assert hash(pickle.loads(pickle.dumps(read))) == hash(read)
    assert SECRET not in f"{read!r} {read} {read.sasl!r} {read.tls!r}"


@pytest.mark.parametrize(
    "login",
    [
        {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": SECRET},
        {"sasl_mechanism": "plain", "sasl_jaas_config": PLAIN_JAAS},
        {"sasl_mechanism": "OAUTHBEARER", "sasl_login_callback_handler_class": "a.b:c"},
    ],
)
def test_what_shows_the_password_needs_tls_loopback_or_leave(login: dict[str, str]) -> None:
    clear = login | {"security_protocol": "SASL_PLAINTEXT"}
    for away in ("kafka.example:1", "localhost:1,10.0.0.1:1"):
        with pytest.raises(ConfigError, match="unencrypted") as refused:
            settings(**clear, bootstrap_servers=away)
        assert "kafka.sasl.in.the.clear=allowed" in refused.value.you_want
        assert SECRET not in f"{refused.value}{refused.value.__dict__}"
        assert settings(**clear, bootstrap_servers=away, sasl_in_the_clear="allowed").sasl
        assert settings(**login, security_protocol="SASL_SSL", bootstrap_servers=away).sasl
    assert settings(**clear, bootstrap_servers="127.0.0.1:1,[::1]:1,localhost:1").sasl


def test_leave_that_allows_nothing_is_refused() -> None:
    login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "a", "sasl_password": "b"}
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        with pytest.raises(ConfigError, match="no effect here"):
            settings(**login, security_protocol=protocol, sasl_in_the_clear="allowed")
    with pytest.raises(ConfigError, match=r"in\.the\.clear is 'maybe'"):
        settings(**login, security_protocol="SASL_PLAINTEXT", sasl_in_the_clear="maybe")
