"""What happens when a rule of `semel check` is ignored: one file per rule, with real clients and a fault that fires.

Each has `run(cluster, followed=…)`, which gives the `Damage` with the rule ignored or followed, and may have
`settings(followed=…)`, the broker settings that its cluster needs. `run_rule` starts that cluster and runs it.
"""
