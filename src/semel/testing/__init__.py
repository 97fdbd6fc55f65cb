"""For tests of code that talks to Kafka: `semel_cluster`, a pytest fixture that is a running cluster.

    def test_orders_arrive(semel_cluster):
        producer = Producer(semel_cluster.client_settings)

The fixture comes with the package, nothing needs to be imported. How large the cluster is, and what it has, is set
where pytest is set:

    [tool.pytest.ini_options]
    semel_brokers = "1"                              # 3 unless given
    semel_topics = ["orders:6:1", "payments"]        # name:partitions:replicas
    semel_config = ["auto.create.topics.enable=false"]

One cluster serves the whole run, so each test should use topics and groups of its own: `semel_name` gives a name that
no other test has.

For code that has to outlive faults: the marker and the fixture `semel_drill` (docs/guide/drill.md).

For sinks of one's own: `check_sink`, which holds a sink against the guarantees (docs/guide/own-sink.md).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.testing.sink_checks import Output, SinkCheckFailed, check_sink

__all__ = ["Output", "SinkCheckFailed", "check_sink"]


def __getattr__(name: str) -> object:
    """Import late: the fixtures need none of it."""
    if name in __all__:
        from semel.testing import sink_checks  # noqa: PLC0415

        return getattr(sink_checks, name)
    raise AttributeError(f"module 'semel.testing' has no attribute {name!r}")
