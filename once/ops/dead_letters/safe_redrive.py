"""Safe redrive: assesses dead letters, and sends back those that may be sent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.redrive import Redriver
from once.ops.dead_letters.redrive_safety import AssessedLetter
from once.ops.dead_letters.redrive_verdict import RedriveOutcome, RedriveVerdict

Assess = Callable[[Iterable[Letter]], list[AssessedLetter]]
"""Returns the verdict on each letter, in their order."""


@dataclass(slots=True)
class SafeRedrive:
    """A redrive of the letters whose verdict allows it.

    Attributes:
        assess: returns the verdicts.
        redriver: sends letters back.
        unsafe: whether letters with the verdict UNSAFE are sent too.
        edited: whether the bodies were edited.
        returning_too: whether letters that would be dead-lettered again are sent.
        expected: outcomes that the operator has confirmed, by message id; a letter whose outcome
            has changed since is not sent.
        refused: letters that were not sent, with their verdicts.
        returning: number of sent letters that will be dead-lettered again.
        came_back: number of letters that were dead-lettered again during the run.
    """

    assess: Assess
    redriver: Redriver
    unsafe: bool
    edited: bool
    returning_too: bool = True
    expected: Mapping[str, RedriveOutcome] = field(default_factory=dict)
    refused: list[AssessedLetter] = field(default_factory=list)
    returning: int = 0
    came_back: int = 0

    def send(self, letters: Sequence[Letter]) -> None:
        """Assess letters of one queue, and send those that may be sent.

        Raises:
            OpsError, botocore.exceptions.BotoCoreError, ClientError: a record cannot be read, or a
                whole call failed, retries included.
        """
        new = [letter for letter in letters if not self.redriver.came_back(letter)]
        self.came_back += len(letters) - len(new)
        assessed = self.assess(new)
        refused = [
            one for one in assessed if self.has_changed(one) or not self.may_be_sent(one.verdict)
        ]
        self.refused += refused
        sent = [one for one in assessed if one not in refused]
        self.redriver.send([one.context.letter for one in sent], edited=self.edited)
        self.returning += sum(
            one.verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN for one in sent
        )

    def has_changed(self, one: AssessedLetter) -> bool:
        """Tell whether a letter's outcome is not the one that the operator has confirmed."""
        outcome = one.verdict.outcome
        return self.expected.get(one.context.letter.message_id, outcome) is not outcome

    def may_be_sent(self, verdict: RedriveVerdict) -> bool:
        """Tell whether a letter with this verdict is sent."""
        if verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN:
            return self.returning_too
        return verdict.safe or (self.unsafe and verdict.outcome is not RedriveOutcome.KEPT)
