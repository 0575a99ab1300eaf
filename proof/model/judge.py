"""What a commit's answer means for each claim in it: as `once.commit._cancellation` has it."""

from collections.abc import Sequence
from typing import NamedTuple

from proof.model.calls import CONDITION, CONFLICTED, NONE, Claim, Found, Reasons

NEW = "new"
COMMITTED = "committed"
DUPLICATE = "duplicate"
PENDING = "pending"
CONFLICT = "key conflict"
REFUSAL = "refusal"
INNOCENT = "innocent"
AGAIN = "again, and alone"
BUSY = "again"
LOST = "left to a later delivery"


class Verdict(NamedTuple):
    """What an attempt to commit came to, for one claim in it."""

    kind: str
    found: Found | None = None


class Judge:
    """Reads DynamoDB's answers."""

    def judge_each(self, claims: Sequence[Claim], reasons: Sequence[Reasons]) -> list[Verdict]:
        """Return a verdict for each claim of a cancelled request."""
        return [self.judge(claim, one) for claim, one in zip(claims, reasons, strict=True)]

    def judge(self, claim: Claim, reasons: Reasons) -> Verdict:
        """Return one claim's verdict, of which its neighbours' reasons say nothing."""
        if isinstance(reasons.record, Found):
            return self.verdict_on(claim, reasons.record) or Verdict(BUSY)
        if CONFLICTED in reasons:
            return Verdict(AGAIN)
        if reasons.row == CONDITION:
            return Verdict(REFUSAL)
        return Verdict(INNOCENT) if reasons == Reasons(NONE, NONE) else Verdict(BUSY)

    def verdict_on(self, claim: Claim, found: Found | None) -> Verdict | None:
        """Return the verdict that a record is on a claim, or None where there is no record."""
        if found is None:
            return None
        if found.record.commit == claim.record.commit:
            return Verdict(COMMITTED)
        if found.record.content != claim.record.content:
            return Verdict(CONFLICT)
        if found.record.intent is None:
            return Verdict(DUPLICATE)
        ours = claim.owned == found.record.intent.owner
        return Verdict(AGAIN) if ours else Verdict(PENDING, found)
