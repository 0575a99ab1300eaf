"""The consumers of the registry, one after the other."""

from tests.stacks.conftest import consumer

__all__ = ["consumer"]
