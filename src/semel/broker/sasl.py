"""SASL: who may connect, and the exchange that proves it."""

from __future__ import annotations


class Credentials:
    """Users and what proves them."""


class SaslExchange:
    """One authentication under way."""
