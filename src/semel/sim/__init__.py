"""The whole cluster in virtual time under one seed: faults, clients, laws. One seed, one history."""

from semel.sim.options import Options, draw_options
from semel.sim.run import SimResult, run_seed

__all__ = ["Options", "SimResult", "draw_options", "run_seed"]
