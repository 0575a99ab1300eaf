"""Redrive run: a search for dead letters, and the redrive of those that may be sent."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.group_order import group_of, overtaken
from once.ops.dead_letters.letter import DeadLetterQueue, Letter, dead_letter_queues
from once.ops.dead_letters.redrive import RateLimiter, Redriver
from once.ops.dead_letters.redrive_safety import AssessedLetter, assess_letters
from once.ops.dead_letters.safe_redrive import SafeRedrive
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.ops.dlq.letter_filter import LetterFilter
from once.ops.dlq.letter_options import LetterOptions
from once.ops.dlq.search import LetterSearch, open_search
from once.ops.dlq.selection import selected_letters
from once.ops.errors import OpsError
from once.ops.operator_log import Change
from once.schema import RELAY

LetterPages = Iterable[Sequence[Letter]]
"""Batches of letters, each of one queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveRequest:
    """Request of an operator.

    Attributes:
        options: select letters, if none are named.
        message_ids: the letters by id; empty for those that the options select.
        edit: whether the body of the only letter is changed.
        unsafe: whether letters that are not safe to send are sent.
        returning: whether letters that would be dead-lettered again are sent without being chosen.
        rate: most messages a second.
    """

    options: LetterOptions
    message_ids: Sequence[str] = ()
    edit: bool = False
    unsafe: bool = False
    returning: bool = False
    rate: float = 10

    @property
    def letter_filter(self) -> LetterFilter:
        """The filter; raises `typer.BadParameter` if it cannot be read."""
        return self.options.letter_filter(self.message_ids)

    @property
    def is_chosen(self) -> bool:
        """Whether the letters are named or filtered."""
        return bool(self.message_ids) or self.letter_filter != LetterFilter()

    def for_log(self) -> dict[str, Any]:
        """Return the arguments for the operator log."""
        return self.options.for_log() | {
            "message_ids": [*self.message_ids],
            "edit": self.edit,
            "unsafe": self.unsafe,
            "returning": self.returning,
        }


@dataclass(slots=True)
class RedriveRun:
    """A redrive whose search is open.

    Attributes:
        request: what was asked for.
        search: holds the letters until the run ends.
        job: assesses and sends them.
        overtaken: letters that stay although they come before a letter of their FIFO message group
            that is sent.
        perhaps_overtaken: whether there may be more, which `limit` has left unread.
    """

    request: RedriveRequest
    search: LetterSearch
    job: SafeRedrive
    overtaken: list[Letter] = field(default_factory=list)
    perhaps_overtaken: bool = False

    def pages(self) -> Iterator[Sequence[Letter]]:
        """Yield the chosen letters.

        Raises:
            OpsError: see `once.ops.dlq.selection.letters_by_id`.
        """
        return selected_letters(self.search, self.request.message_ids, self.request.letter_filter)

    def assessed(self, pages: LetterPages) -> list[AssessedLetter]:
        """Return the verdicts on the letters, without sending any."""
        found = [one for page in pages for one in self.job.assess(page)]
        self._compare_order([one.context.letter for one in self.job.plan(found).sent])
        return found

    def send(self, pages: LetterPages, change: Change, page_sent: Callable[[], object]) -> None:
        """Send the letters, and note in the change what was done, also if this ends early.

        Args:
            pages: the letters.
            change: the change in the operator log.
            page_sent: called after each batch; what it raises ends the run.
        """
        try:
            for page in pages:
                self.job.send(page)
                page_sent()
        finally:
            self._compare_order(self.job.redriver.result.in_groups)
            change.message_ids = [*self.job.redriver.result.sent]
            change.counts = self.counts()

    def _compare_order(self, sent: Sequence[Letter]) -> None:
        self.overtaken = overtaken(sent, self.search.walk.held)
        self.perhaps_overtaken = self.search.walk.cut_short and any(map(group_of, sent))

    def counts(self) -> dict[str, int]:
        """Return the numbers of letters by what was done with them."""
        result = self.job.redriver.result
        return {
            "sent": len(result.sent),
            "kept": len(self.job.refused),
            "failed": len(result.failed),
            "in_doubt": len(result.unanswered) + len(result.undeleted),
        }


@contextmanager
def open_redrive(
    deployment: Deployment, request: RedriveRequest, *, returning_too: bool
) -> Iterator[RedriveRun]:
    """Open a redrive, which holds its letters until the end.

    Args:
        deployment: the deployment.
        request: what the operator asks for.
        returning_too: whether letters that would be dead-lettered again are sent.

    Raises:
        OpsError: the letters are the relay's, which has no queue.
    """
    sqs = client("sqs")
    queues = _source_queues(deployment, request.options.consumer)
    assess = partial(assess_letters, DedupRecordReader.of(client("dynamodb"), deployment))
    with open_search(sqs, queues, request.options.limit) as search:
        redriver = Redriver(sqs, RateLimiter(request.rate), search.walk.forget)
        job = SafeRedrive(assess, redriver, request.unsafe, request.edit, returning_too)
        yield RedriveRun(request, search, job)


def _source_queues(deployment: Deployment, consumer: str | None) -> list[DeadLetterQueue]:
    if consumer == RELAY:
        raise OpsError("the relay has no queue: `once outbox republish` publishes its events again")
    return [queue for queue in dead_letter_queues(deployment, consumer) if queue.owner != RELAY]
