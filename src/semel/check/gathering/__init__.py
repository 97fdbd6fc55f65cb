"""Gathers facts: from a cluster through `semel.wire`, from files of settings and options."""
