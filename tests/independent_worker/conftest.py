"""Servers, switches and ranks as in tests/e2e."""

from tests.e2e.conftest import cluster

__all__ = ["cluster"]
