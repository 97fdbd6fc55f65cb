"""Faults that can be injected into an embedded cluster, one file each, and schedules of them.

from semel.faults import KillBroker, injected

with injected(cluster, KillBroker(broker=2)) as fault:
    …
assert fault.fired
"""

from semel.faults.catalogue import FAULTS, make, parse
from semel.faults.drawing import ClusterShape
from semel.faults.fault import Fault
from semel.faults.injection import injected, played
from semel.faults.on_brokers import KillBroker, KillController, MoveLeader, PauseBroker, RestartBroker
from semel.faults.on_machines import ClockJump, FullDisk, LostSync, SlowDisk, SplitNetwork, TornWrite
from semel.faults.on_messages import CutResponse, DelayMessage, LoseRequest, LoseResponse, RefuseRequest
from semel.faults.schedule import Entry, Schedule

__all__ = [
    "FAULTS",
    "ClockJump",
    "ClusterShape",
    "CutResponse",
    "DelayMessage",
    "Entry",
    "Fault",
    "FullDisk",
    "KillBroker",
    "KillController",
    "LoseRequest",
    "LoseResponse",
    "LostSync",
    "MoveLeader",
    "PauseBroker",
    "RefuseRequest",
    "RestartBroker",
    "Schedule",
    "SlowDisk",
    "SplitNetwork",
    "TornWrite",
    "injected",
    "make",
    "parse",
    "played",
]
