"""Drills: faults on real clients and processes, and what they do to records."""
