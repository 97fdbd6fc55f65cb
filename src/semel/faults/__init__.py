"""Faults that can be injected into an embedded cluster, one file each, and schedules of them.

from semel.faults import KillBroker, injected

with injected(cluster, KillBroker(broker=2)) as fault:
    …
assert fault.fired
"""

from semel.faults.catalogue import FAULTS, make, parse
from semel.faults.clock_jump import ClockJump
from semel.faults.cut_response import CutResponse
from semel.faults.delay_message import DelayMessage
from semel.faults.drawing import Surroundings
from semel.faults.fault import Fault
from semel.faults.full_disk import FullDisk
from semel.faults.injection import injected, played
from semel.faults.kill_broker import KillBroker
from semel.faults.kill_controller import KillController
from semel.faults.lose_request import LoseRequest
from semel.faults.lose_response import LoseResponse
from semel.faults.lost_sync import LostSync
from semel.faults.move_leader import MoveLeader
from semel.faults.pause_broker import PauseBroker
from semel.faults.refuse_request import RefuseRequest
from semel.faults.restart_broker import RestartBroker
from semel.faults.schedule import Entry, Schedule
from semel.faults.slow_disk import SlowDisk
from semel.faults.split_network import SplitNetwork
from semel.faults.torn_write import TornWrite

__all__ = [
    "FAULTS",
    "ClockJump",
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
    "Surroundings",
    "TornWrite",
    "injected",
    "make",
    "parse",
    "played",
]
