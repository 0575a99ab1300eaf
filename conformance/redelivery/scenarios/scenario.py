"""A scenario's name, and which scenarios a handler's calls give."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redelivery.boundary.invocation import Call, applies
from redelivery.faults import AT_A_CALL, Fault
from redelivery.samples import POISON, Samples
from redelivery.subject import Subject, SubjectError

# To die before a call of a batch is to die after the one before it.
_IN_A_BATCH = (Fault.DIES_AFTER, Fault.ANSWER_LOST, Fault.THROTTLED, Fault.DEADLINE)
SENT_TWICE = "sent-twice"
"""The second message of `in-parallel` was sent by the producer and has its own MessageId."""

_NOT_ON_FIFO = (Fault.TWICE_IN_BATCH, Fault.DELIVERED_AGAIN, Fault.STALE_READ)
_IN_ONE_BATCH = {
    *(Fault.BATCH, Fault.TWICE_IN_BATCH, Fault.REGROUPED, Fault.NEIGHBOUR_FAILS, Fault.POISON)
}
_MOST_INTERLEAVINGS = 20
_PARALLEL = (Fault.IN_PARALLEL, Fault.TWO_IN_PARALLEL)
_VARIANTS = {
    **{fault: ("",) for fault in Fault if not fault.at_a_call and fault not in _PARALLEL},
    Fault.DELIVERED_AGAIN: ("warm", "cold"),
    Fault.NEIGHBOUR_FAILS: ("first", "last"),
    Fault.POISON: ("first", "last", *filter(None, POISON)),
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario: a fault, and how many messages are sent at first.

    Attributes:
        at: the calls at which the fault takes place, or two invocations change over.
        variant: one of several forms of a fault.
    """

    fault: Fault
    messages: int = 1
    at: tuple[int, ...] = ()
    variant: str = ""

    @property
    def name(self) -> str:
        """The name: `dies-after@1.3` is at the third call of one message."""
        if self.fault.at_a_call:
            place = f"{self.messages}.{self.at[0]}"
        else:
            place = "-".join(filter(None, [self.variant, ",".join(map(str, self.at))]))
        return f"{self.fault}@{place}" if place else str(self.fault)


def scenarios(
    calls: Sequence[Call], in_a_batch: Sequence[Call], samples: Samples, seed: int, *, fifo: bool
) -> list[Scenario]:
    """Return every scenario that a handler's calls give, the simple ones first.

    Args:
        calls: of a clean run of one message.
        in_a_batch: of a clean run of two messages in a batch.
        samples: the messages.
        seed: draws the interleavings.
        fifo: whether the source is a FIFO queue.
    """
    found = [*_at_calls(calls, 1, AT_A_CALL)]
    missing = {
        Fault.BATCH: samples.second is None,
        Fault.REGROUPED: samples.second is None,
        Fault.OTHER_CONTENT: samples.other is None,
        Fault.STALE_READ: not any(call.eventual for call in calls),
    }
    for fault, variants in _VARIANTS.items():
        if not missing.get(fault):
            found += [Scenario(fault, variant=variant) for variant in variants]
    # Two invocations change over before each call, and before some pairs of calls.
    numbers = range(1, len(calls) + 1)
    single = [(first,) for first in numbers]
    double = [(first, second) for first in numbers for second in numbers]
    most = min(len(double), max(_MOST_INTERLEAVINGS - len(single), 0))
    changes = [*single, *random.Random(seed).sample(double, most)]
    found += [Scenario(Fault.IN_PARALLEL, at=at) for at in changes]
    if not fifo:
        found += [Scenario(Fault.IN_PARALLEL, at=at, variant=SENT_TWICE) for at in single]
    if samples.sibling or samples.second:
        found += [Scenario(Fault.TWO_IN_PARALLEL, at=at) for at in single]
    if samples.second is not None:
        found += _at_calls(in_a_batch, 2, _IN_A_BATCH)
    return found


def _at_calls(calls: Sequence[Call], messages: int, faults: Sequence[Fault]) -> Iterator[Scenario]:
    for number, call in enumerate(calls, start=1):
        for fault in faults:
            if applies(fault, call):
                yield Scenario(fault, messages, (number,))


def not_run(subject: Subject, found: Sequence[Scenario], untried: str) -> dict[Fault, str]:
    """Return the faults that have no scenario, with the reason; of two messages, `untried`."""
    present = {scenario.fault for scenario in found}
    reasons = {
        Fault.OTHER_CONTENT: "no field with the event's key was declared (--key)"
        if not subject.key
        else "the sample has no other field that could differ",
        **dict.fromkeys((Fault.BATCH, Fault.REGROUPED, Fault.TWO_IN_PARALLEL), untried),
        Fault.PARTLY_DONE: "the handler makes no request of several entries",
        Fault.STALE_READ: "every read of the handler is consistent",
        Fault.CONFLICTED: "the handler does not write to DynamoDB",
        Fault.ANSWER_LOST_RETRIED: "the handler makes no write that an SDK repeats",
    }
    missing = (fault for fault in Fault if fault not in present)
    none = "the handler makes no such call"
    return {fault: reasons.get(fault, none) for fault in missing} | excluded(subject)


def excluded(subject: Subject) -> dict[Fault, str]:
    """Return the faults that are not played for a subject, with the reason.

    Raises:
        SubjectError: the subject skips a fault of an unknown name.
    """
    once = dict.fromkeys(_NOT_ON_FIFO, "a FIFO queue delivers no copy of a message")
    alone = dict.fromkeys(_IN_ONE_BATCH, "the mapping's batches have one message")
    on_request = {fault_named(name): "skipped on request" for name in subject.skip}
    own = (once if subject.fifo else {}) | (alone if subject.batch_size == 1 else {})
    return own | on_request


def fault_named(name: str) -> Fault:
    """Return a fault by its name. Raises SubjectError for an unknown name."""
    try:
        return Fault(name)
    except ValueError:
        raise SubjectError(f"no fault is named {name}; there are {', '.join(Fault)}") from None
