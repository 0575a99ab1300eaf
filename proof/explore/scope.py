"""A scope: the messages of one exploration, the functions that run, and the bounds."""

from dataclasses import dataclass

from proof.traffic import Entries
from proof.world.plan import Action


@dataclass(frozen=True, slots=True)
class Sent:
    """An event as it is put into a consumer's queue."""

    consumer: str
    body: str


@dataclass(frozen=True, slots=True)
class Scope:
    """A small initial state, and the bounds within which every schedule is explored.

    Attributes:
        name: for reports.
        sent: the events in the queues at first.
        running: the consumers whose functions are invoked. What is published for any other
            consumer stays in its queue.
        preemptions: at most so many in one schedule.
        faults: at most so many in one schedule.
        letters: the events in dead-letter queues at first, as SQS itself moves them there.
        late: the events sent again when all is at rest, at the end of the dedup window.
        late_by: how long before the end of the window that is, in seconds, so that what is
            retried is still within it.
        expires: whether TTL then removes every record.
        outage: whether deliveries may once be suspended for more than a day, while no function
            runs. It counts as a preemption.
        redrives: how often the operator redrives dead letters.
        settles: how often the operator settles pending effects by hand.
        effect_calls: how often an effect is attempted in one invocation.
        clocks: skewed clocks, as actions of a plan.
        conflicting: bodies that share their key with an event of other content.
        fatal: bodies that no function survives reading.
        entries: the events of the FIFO consumers, which then run in place of the shop's.
    """

    name: str
    sent: tuple[Sent, ...] = ()
    running: tuple[str, ...] = ("inventory",)
    preemptions: int = 2
    faults: int = 1
    letters: tuple[Sent, ...] = ()
    late: tuple[Sent, ...] = ()
    late_by: int = 0
    expires: bool = False
    outage: bool = False
    redrives: int = 0
    settles: int = 0
    effect_calls: int = 3
    clocks: tuple[Action, ...] = ()
    conflicting: tuple[str, ...] = ()
    fatal: tuple[str, ...] = ()
    entries: Entries | None = None

    @property
    def relays_early(self) -> bool:
        """Whether a consumer runs to which the relay may send."""
        return len(self.running) > 1
