"""The faults: everything that a scenario does to the handler."""

from enum import StrEnum


class Fault(StrEnum):
    """A misbehaviour of SQS, Lambda, the network or a service. Its value is its name in reports."""

    # At a call that leaves the process.
    DIES_BEFORE = "dies-before"
    DIES_AFTER = "dies-after"
    ANSWER_LOST = "answer-lost"
    ANSWER_LOST_RETRIED = "answer-lost-retried"
    REFUSED = "refused"
    THROTTLED = "throttled"
    CONFLICTED = "conflicted"
    TIMED_OUT = "timed-out"
    PARTLY_DONE = "partly-done"
    DEADLINE = "deadline"
    # In the delivery.
    BATCH = "batch"
    TWICE_IN_BATCH = "twice-in-batch"
    IN_PARALLEL = "in-parallel"
    TWO_IN_PARALLEL = "two-in-parallel"
    DELIVERED_AGAIN = "delivered-again"
    STALE_READ = "stale-read"
    REGROUPED = "regrouped"
    SENT_AGAIN = "sent-again"
    REDRIVEN = "redriven"
    AFTER_EXPIRY = "after-expiry"
    BATCH_ANSWER_LOST = "batch-answer-lost"
    # In the messages.
    NEIGHBOUR_FAILS = "neighbour-fails"
    POISON = "poison"
    OTHER_CONTENT = "other-content"

    @property
    def at_a_call(self) -> bool:
        """Whether the fault takes place at one call of the handler."""
        return self in AT_A_CALL


AT_A_CALL = tuple(Fault)[: tuple(Fault).index(Fault.DEADLINE) + 1]

BESIDE = (Fault.NEIGHBOUR_FAILS, Fault.POISON)
"""The faults with another message that should fail."""

MEANING = {
    Fault.DIES_BEFORE: "the process dies before a call leaves it",
    Fault.DIES_AFTER: "the process dies after a call took effect, before its answer arrives",
    Fault.ANSWER_LOST: "a call takes effect, and its answer is lost",
    Fault.ANSWER_LOST_RETRIED: "the answer is lost, and the SDK repeats the call",
    Fault.REFUSED: "the connection is refused: the call takes no effect",
    Fault.THROTTLED: "the service throttles the call until the SDK gives up",
    Fault.CONFLICTED: "DynamoDB cancels the write: another transaction holds the item",
    Fault.TIMED_OUT: "a call times out, and takes effect after the invocation has ended",
    Fault.PARTLY_DONE: "the service processes a batch request without its last entry, and says so",
    Fault.DEADLINE: "a call takes so long that one second is left to the function",
    Fault.BATCH: "two messages arrive in one batch, without any fault",
    Fault.TWICE_IN_BATCH: "one batch contains the message twice",
    Fault.IN_PARALLEL: "two invocations process the message at the same time",
    Fault.TWO_IN_PARALLEL: "two invocations process two different messages at the same time",
    Fault.DELIVERED_AGAIN: "SQS delivers the message again after it was deleted",
    Fault.STALE_READ: "SQS delivers the message again at once, and reads that are not consistent "
    "answer as before",
    Fault.REGROUPED: "the function's answer is lost; SQS delivers the message again with another",
    Fault.SENT_AGAIN: "the producer sends the message twice within a minute: new MessageId",
    Fault.REDRIVEN: "the message is sent to its queue again after ten minutes: new MessageId",
    Fault.AFTER_EXPIRY: "the message arrives again when records with a time to live are gone",
    Fault.BATCH_ANSWER_LOST: "the function succeeds, and its answer to SQS is lost",
    Fault.NEIGHBOUR_FAILS: "another message of the batch lacks its fields",
    Fault.POISON: "another message of the batch is no JSON object",
    Fault.OTHER_CONTENT: "another message has the same key and other content",
}
