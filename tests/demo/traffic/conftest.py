"""A deployment in memory, as the operator's commands have it in their tests."""

from tests.ops.conftest import _own_environment, at_work, cloud

__all__ = ["_own_environment", "at_work", "cloud"]
