"""Effect attempt: the state of one delivery at its effect."""

from dataclasses import dataclass
from typing import Any

from once.deadline import Deadline
from once.handlers.effect_declaration import Effect
from once.handlers.intent import Intent


@dataclass(slots=True)
class EffectAttempt:
    """A delivery's attempt at an effect. Only `once.effects` writes it.

    Attributes:
        pk: partition key of the dedup record.
        effect: the effect.
        intent: the effect's intent, which this delivery owns, or which is settled.
        deadline: the time left in this invocation.
        clean: whether the provider has certainly done nothing so far.
        is_done: whether there is an outcome.
        outcome: the effect's outcome; None before.
    """

    pk: str
    effect: Effect
    intent: Intent
    deadline: Deadline
    clean: bool
    is_done: bool = False
    outcome: Any = None
