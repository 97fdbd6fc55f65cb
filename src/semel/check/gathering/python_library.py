"""Which library the clients of a Python program belong to: by what it imports, or else by how it spells settings."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from semel.clients.setting_names import SPARK_PREFIX

LIBRARIES = {"confluent_kafka": "librdkafka", "kafka": "kafka-python", "aiokafka": "aiokafka"}
# These refuse by themselves what contradicts their guarantee.
OWN_PACKAGE = "semel"
HERE = "(this program)"


def imports_of(tree: ast.Module) -> dict[str, str]:
    """Where each imported name comes from: `Producer` from `confluent_kafka.Producer`."""
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for one in names:
                    # `import a.b` binds the name a, `import a.b as c` binds c to a.b.
                    first = one.name.partition(".")[0]
                    origins[one.asname or first] = one.name if one.asname else first
            case ast.ImportFrom(module=module, names=names, level=level):
                package = HERE if level else f"{module}"
                origins |= {one.asname or one.name: f"{package}.{one.name}" for one in names}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                origins[name] = f"{HERE}.{name}"
    return origins


def library_of(package: str, shown: str) -> tuple[str, str]:
    """The library of a class that makes clients, and why; empty texts for a class of somebody else."""
    if package in LIBRARIES:
        return LIBRARIES[package], f"{shown} comes from {package}"
    if package != shown:
        return "", ""  # a class of somebody else
    if shown.startswith("AIOKafka"):
        return "aiokafka", f"{shown} is a name of aiokafka's"
    if shown.startswith("Kafka"):
        return "kafka-python", f"{shown} is a name of kafka-python's"
    plain = shown in ("Producer", "Consumer")
    return ("librdkafka", "assumed: no import says where it comes from") if plain else ("", "")


def library_by_spelling(names: Iterable[str], imported: set[str]) -> tuple[str, str]:
    """The library of a dict that no call takes, and why."""
    every = list(names)
    if any(name.startswith(SPARK_PREFIX) for name in every):
        return "java", f"names that begin with {SPARK_PREFIX} go to Spark's Java client"
    dots = any("." in name for name in every)
    fitting = sorted(imported & ({"librdkafka"} if dots else {"kafka-python", "aiokafka"})) or sorted(imported)
    if fitting:
        return fitting[-1], "the file imports it"
    underscores = not dots and any("_" in name for name in every)
    return ("kafka-python" if underscores else "librdkafka"), "assumed: no import tells"
