"""Amazon MSK with IAM: what its guides for Java say does not work without Java, and what does.

MSK takes an IAM login in two ways: as AWS_MSK_IAM, whose messages a Java class of Amazon's makes, and as OAUTHBEARER
with a signed token, which a Python package of Amazon's makes. Only the second can be spoken here.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.errors import ConfigError

_MECHANISM = "AWS_MSK_IAM"
_JAVA_PACKAGE = "software.amazon.msk."
_SIGNER = "aws-msk-iam-sasl-signer-python"


def refuse_msk_iam(settings: Mapping[str, object], token_setting: str, *, prefix: str = "") -> None:
    """Raise ConfigError where settings ask for Amazon's Java classes; `token_setting` takes a function for tokens."""
    for name, value in settings.items():
        # The value of sasl.jaas.config may have a password: only its name is shown.
        is_mechanism = isinstance(value, str) and value.strip().upper() == _MECHANISM
        if is_mechanism or (isinstance(value, str) and _JAVA_PACKAGE in value):
            raise ConfigError(
                f"{name} asks for Amazon's Java classes, which cannot be called from here",
                you_want=f"{prefix}security.protocol=SASL_SSL, {prefix}sasl.mechanism=OAUTHBEARER, and in "
                f"{token_setting} a function that gives tokens: "
                f"MSKAuthTokenProvider.generate_auth_token(region) of {_SIGNER}",
                because=f"MSK takes an IAM login as {_MECHANISM}, which only Java speaks, or as OAUTHBEARER",
                next_command=f"pip install {_SIGNER}; both functions are in docs/guide/security.md",
            )
