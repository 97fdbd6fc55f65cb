"""What every part of the broker stands on: background tasks, links between brokers, pauses, fault hooks."""
