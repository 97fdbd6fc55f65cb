"""Reads `sasl.jaas.config`, the Java way to give a user name and a password, so that no option has to be rewritten.

Keeps: the text is never part of an error: it holds a password.
"""

import re

from semel.errors import ConfigError

_ENTRY = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(required|requisite|sufficient|optional)\b(?P<options>.*);\s*", re.DOTALL
)
_OPTION = re.compile(r"""\s*(?P<name>[\w.]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s";]+))""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Give the login module's short name and its options."""
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise _malformed("it is not one `<module> required <options>;`")
    options: dict[str, str] = {}
    rest, position = entry["options"], 0
    while rest[position:].strip():
        option = _OPTION.match(rest, position)
        if option is None:
            raise _malformed('an option is not of the form name="value"')
        quoted = option["quoted"]
        options[option["name"]] = _ESCAPE.sub(r"\1", quoted) if quoted is not None else option["bare"]
        position = option.end()
    return entry["module"].rsplit(".", 1)[-1], options


def _malformed(because: str) -> ConfigError:
    return ConfigError(
        "option kafka.sasl.jaas.config cannot be read",
        you_want='org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";',
        because=because,
    )
