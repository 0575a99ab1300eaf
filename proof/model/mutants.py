"""Which broken protocol shows itself where: the tests of the explorer."""

from typing import NamedTuple

from proof.model.broken import carriers, commits, effects
from proof.model.explorer import Violation, shortest
from proof.model.moves import Parts
from proof.model.scopes import scope_named


class Mutant(NamedTuple):
    """A broken protocol, and the scope in which that is seen."""

    parts: Parts
    scope: str


_TWICE, _NEIGHBOURS, _CONFLICT = "the same event twice", "two neighbours", "key conflict"
_CHARGE, _MAIL, _REDRIVE = "charge", "mail twice", "redrive of a conflict"
_DAY, _CHARGE_DAY = "a day between", "a day between charges"

MUTANTS = {
    "claim-then-effect": Mutant(Parts(commits.ClaimThenEffect), _TWICE),
    "effect-then-mark": Mutant(Parts(commits.EffectThenMark), _TWICE),
    "lease": Mutant(Parts(commits.Lease), _TWICE),
    "ack-first": Mutant(Parts(commits.AckFirst), _TWICE),
    "cancel-is-failure": Mutant(Parts(commits.CancelIsFailure), _TWICE),
    "cancel-is-duplicate": Mutant(Parts(commits.CancelIsDuplicate), _TWICE),
    "one-reason-for-all": Mutant(Parts(commits.OneReasonForAll), _NEIGHBOURS),
    "unknown-is-done": Mutant(Parts(commits.UnknownIsDone), _TWICE),
    "inline-publish": Mutant(Parts(commits.InlinePublish), _TWICE),
    "checkpoint-first": Mutant(Parts(relay=carriers.CheckpointFirst), _TWICE),
    "batch-answer-believed": Mutant(Parts(relay=carriers.BelievesTheBatch), _NEIGHBOURS),
    "no-downstream-dedup": Mutant(Parts(deduplicates_downstream=False), _TWICE),
    "removals-relayed": Mutant(Parts(relay=carriers.RelaysRemovals), _DAY),
    "message-id-as-key": Mutant(Parts(commits.MessageIdAsKey), _TWICE),
    "no-fingerprint": Mutant(Parts(commits.NoFingerprint), _CONFLICT),
    "ttl-as-the-window": Mutant(Parts(commits.ShortWindow), _DAY),
    "unsent-dead-letter": Mutant(Parts(commits.UnsentLetter), _CONFLICT),
    "redrive-deletes-first": Mutant(Parts(operator=carriers.DeletesFirst), _REDRIVE),
    "fresh-provider-key": Mutant(Parts(effects.FreshProviderKey), _CHARGE),
    "failed-call-is-done": Mutant(Parts(effects.FailedCallIsDone), _CHARGE),
    "provider-key-for-ever": Mutant(Parts(effects.KeyForEver), _CHARGE_DAY),
    "saved-error-is-not-done": Mutant(Parts(effects.NoLookUp), _CHARGE),
    "resumed-is-clean": Mutant(Parts(effects.ResumedIsClean), _CHARGE_DAY),
    "completion-without-fence": Mutant(Parts(effects.NoFence), _CHARGE),
    "pending-without-lease": Mutant(Parts(effects.NoLease), _MAIL),
    "unknown-is-not-done": Mutant(Parts(effects.NeverInDoubt), _MAIL),
}


def mutants() -> dict[str, Violation | None]:
    """Return each broken protocol's name, and what caught it, or None if nothing did."""
    return {name: caught(mutant) for name, mutant in MUTANTS.items()}


def caught(mutant: Mutant) -> Violation | None:
    """Return the violation that takes the fewest faults, and of these the fewest actions."""
    scope = scope_named(mutant.scope)
    tries = (
        shortest(mutant.parts, scope._replace(faults=faults)) for faults in range(scope.faults + 1)
    )
    return next(filter(None, tries), None)
