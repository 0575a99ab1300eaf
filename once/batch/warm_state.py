"""What a function remembers of earlier invocations, for as long as it is warm.

All of it is experience and none of it state: a new function, which knows nothing, is only slower.
"""

from dataclasses import dataclass

from once.batch.group_size import GroupSize
from once.failures.circuit_breaker import Breaker


@dataclass(frozen=True, slots=True)
class Memory:
    """How many messages go together well, and whether what they depend on is down."""

    size: GroupSize
    breaker: Breaker
