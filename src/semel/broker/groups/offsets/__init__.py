"""Committed offsets, of groups and of transactions that have not ended."""
