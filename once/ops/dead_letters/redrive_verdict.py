"""Redrive verdict: the expected outcome of sending a dead letter back."""

from dataclasses import dataclass
from enum import Enum


class RedriveOutcome(Enum):
    """Outcome of sending a letter back; the value is its text on the terminal."""

    PROCESSED = "safe"
    DUPLICATE = "safe, a duplicate"
    DEAD_LETTERED_AGAIN = "safe, but comes back"
    UNSAFE = "NOT SAFE"
    KEPT = "stays"


@dataclass(frozen=True, slots=True)
class RedriveVerdict:
    """Expected outcome of a redrive, and its reason as text."""

    outcome: RedriveOutcome
    why: str

    @property
    def safe(self) -> bool:
        """Whether the letter can be sent without doing anything a second time."""
        return self.outcome not in {RedriveOutcome.UNSAFE, RedriveOutcome.KEPT}

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.why}"
