"""`--command-config`: what is in the file is in force or refused, and no password of it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.cli.connecting import cluster_of
from semel.errors import ConfigError

SECRET = "top-5ecret"
LOGIN = f"sasl.mechanism=SCRAM-SHA-256\nsasl.username=ann\nsasl.password={SECRET}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LOGIN, "has no effect without kafka.security.protocol"),
        (f"security.protocol=SASL_SSL\nbootstrap.servers=other:1\n{LOGIN}", "names another cluster than --bootstrap"),
        (f"security.protocol=SASL_SSL\nBootstrap.Servers=other:1\n{LOGIN}", "names another cluster than --bootstrap"),
        (f"security.protocol=SASL_SSL\nsasl.pasword={SECRET}", "sasl.pasword is unknown"),
        (f"security.protocol=SSL\nssl.protocol={SECRET}", "ssl.protocol is not supported"),
        (f"security.protocol=SASL_SSL\nSecurity.Protocol=PLAINTEXT\n{LOGIN}", "twice, in different spelling"),
        ("security.protocol=SASL_PLAINTEXT\n" + LOGIN.replace("SCRAM-SHA-256", "PLAIN"), "unencrypted"),
    ],
)
def test_what_would_not_be_in_force_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        cluster_of("kafka.example:9092", str(file))
    assert words in str(refused.value)
    assert SECRET not in f"{refused.value}{refused.value.__dict__}"


def test_the_same_cluster_may_be_named_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=kafka.example:9092\nkafka.security.protocol=SASL_SSL\n" + LOGIN)
    settings = cluster_of("kafka.example:9092", str(file)).settings
    assert (settings.protocol, settings.sasl is not None and settings.sasl.password) == ("SASL_SSL", SECRET)
