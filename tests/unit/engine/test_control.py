"""What the control socket answers when a request makes sense but cannot be carried out now."""

from __future__ import annotations

import pytest

from semel.cli.exit_code import ExitCode, exit_code_of
from semel.engine.control import Control, ask
from semel.engine.embedded import Cluster
from semel.engine.running import Running
from semel.errors import ConfigError, SemelError

NEVER_MS = str(3_600_000)


def refusal(running: Running, **arguments: object) -> SemelError:
    with pytest.raises(SemelError) as refused:
        ask(running, "move-leader", arguments)
    return refused.value


def test_no_leader_moves_without_a_controller_and_that_is_not_the_askers_mistake() -> None:
    config = {"controller.quorum.election.timeout.ms": NEVER_MS}
    with Cluster(brokers=2, topics=["orders:1:2"], config=config) as cluster:
        control = Control(cluster)
        running = Running(
            name="here",
            engine="embedded",
            bootstrap=cluster.bootstrap,
            brokers=2,
            data="",
            pid=0,
            started_ms=0,
            control_port=control.port,
            token=control.token,
        )
        target = 3 - cluster.core.state.topics["orders"].partitions[0].leader
        cluster.kill_controller()
        now = refusal(running, topic="orders", partition=0, broker=target)
        never = refusal(running, topic="nowhere", partition=0, broker=target)
        control.close()
    assert "no controller is active" in str(now)
    assert exit_code_of(now) is ExitCode.ENVIRONMENT
    assert isinstance(never, ConfigError)
    assert exit_code_of(never) is ExitCode.USAGE
