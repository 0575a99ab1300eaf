"""Safe redrive: assesses dead letters, and sends back those that may be sent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from once.ops.dead_letters.group_order import Group, GroupOrder, group_of
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.redrive import Redriver
from once.ops.dead_letters.redrive_safety import AssessedLetter
from once.ops.dead_letters.redrive_verdict import RedriveOutcome, RedriveVerdict

Assess = Callable[[Iterable[Letter]], list[AssessedLetter]]
"""Returns the verdict on each letter, in their order."""


@dataclass(slots=True)
class RedrivePlan:
    """Assessed letters by what a redrive does with them.

    Attributes:
        sent: they are sent.
        refused: their verdict keeps them in their queue.
        waiting: they stay as well, behind a refused letter of their message group.
    """

    sent: list[AssessedLetter] = field(default_factory=list)
    refused: list[AssessedLetter] = field(default_factory=list)
    waiting: list[AssessedLetter] = field(default_factory=list)


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

    Of a FIFO message group, the letters after a refused one stay as well.
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
    _order: GroupOrder = field(default_factory=GroupOrder)

    def send(self, letters: Sequence[Letter]) -> None:
        """Assess letters of one queue, and send those that may be sent.

        Raises:
            OpsError, botocore.exceptions.BotoCoreError, ClientError: a record cannot be read, or a
                whole call failed, retries included.
        """
        new = [letter for letter in letters if not self.redriver.came_back(letter)]
        self.came_back += len(letters) - len(new)
        plan = self._planned(self.assess(new), self._order)
        self.refused += plan.refused
        for one in plan.waiting:
            self.redriver.keep(one.context.letter)
        self.redriver.send([one.context.letter for one in plan.sent], edited=self.edited)
        self.returning += sum(
            one.verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN for one in plan.sent
        )

    def plan(self, assessed: Iterable[AssessedLetter]) -> RedrivePlan:
        """Return what a redrive of these letters does with each of them."""
        return self._planned(assessed, GroupOrder())

    def _planned(self, assessed: Iterable[AssessedLetter], order: GroupOrder) -> RedrivePlan:
        plan = RedrivePlan()
        for one in assessed:
            if self.has_changed(one) or not self.may_be_sent(one.verdict):
                order.stop(group_of(one.context.letter))
                plan.refused.append(one)
            else:
                plan.sent += order.may_go([one], _group, plan.waiting.append)
        return plan

    def has_changed(self, one: AssessedLetter) -> bool:
        """Tell whether a letter's outcome is not the one that the operator has confirmed."""
        outcome = one.verdict.outcome
        return self.expected.get(one.context.letter.message_id, outcome) is not outcome

    def may_be_sent(self, verdict: RedriveVerdict) -> bool:
        """Tell whether a letter with this verdict is sent."""
        if verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN:
            return self.returning_too
        return verdict.safe or (self.unsafe and verdict.outcome is not RedriveOutcome.KEPT)


def _group(one: AssessedLetter) -> Group | None:
    return group_of(one.context.letter)
