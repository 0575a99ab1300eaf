"""Changes of dead letters: redrive, edit and purge, each as a job after a dry run.

Forms of the pages of dead letters lead here. A confirmed job walks through the queues again, and
takes the letters of its dry run alone: those that arrived since stay.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial

from typer import BadParameter

from once.events.cloud_event import CloudEvent
from once.events.identity import fingerprint
from once.ops.aws.clients import RateLimiter, batches
from once.ops.console.dead_letters import letter_options, query_text, query_values, read_letter
from once.ops.console.jobs import Job, Progress, number_field, shown_command
from once.ops.console.rendering import FormData, Request, Response, below_root, page
from once.ops.console.state import ConsoleState, state_of
from once.ops.dead_letters.assessment import AssessedLetter, assess_letters
from once.ops.dead_letters.edit import RefusedEditError, editable_text, printable_json, with_body
from once.ops.dead_letters.export import FOLDER, LetterPurge, exported_text
from once.ops.dead_letters.letter import Letter, dead_letter_queues
from once.ops.dead_letters.letter_text import reason_text
from once.ops.dead_letters.redrive import LetterPages, Redrive, RedriveRequest, open_redrive
from once.ops.dead_letters.search import LetterOptions, QueueWalk, open_search, selected_letters
from once.ops.errors import OpsError
from once.ops.operator_log import logged_change
from once.ops.terminal import first_lines

MOST_LINES = 50
"""Most letters that the page of a job names one by one."""
_some = partial(first_lines, most=MOST_LINES)


def plan_redrive(request: Request, form: FormData) -> Job:
    """Return the job that sends letters back; nothing unsafe is ever sent."""
    state, (options, ids, back) = state_of(request), _chosen(request, form)
    asked = RedriveRequest(
        **vars(options),
        message_ids=ids,
        returning=bool(form.get("returning")),
        rate=number_field(
            str(form.get("rate") or "10"),
            0.1,
            1000,
            "is no rate: give messages a second, from 0.1 to 1000",
        ),
    )
    opened = partial(open_redrive, state.deployment, asked, returning_too=asked.returning)
    with state.letters.held(), opened() as redrive:
        plan = redrive.dry_run(asked.pages(redrive.walk))
    expected = {one.letter.message_id: one.verdict.outcome for one in plan.sent}

    def work(why: str | None, progress: Progress) -> None:
        with state.letters.changing(), opened() as redrive:
            redrive.expected = expected
            progress.total = redrive.walk.about.total
            confirmed = _ConfirmedLetters({*expected}, redrive.walk)
            most = RateLimiter(asked.rate).max_per_call
            # A stop waits for one call alone.
            calls = (call for some in confirmed.pages() for call in batches(some, most))
            try:
                _send(state, asked, redrive, calls, why, progress)
            finally:
                progress.result = [*progress.result, *confirmed.missing_lines()]

    return Job(
        title=f"Redrive {len(expected)} dead letters",
        plan=[
            str(plan),
            *filter(None, [redrive.overtaken_text]),
            redrive.walk.progress_text,
            "Each letter is assessed again before it is sent. A letter whose verdict has changed "
            "by then, or that has arrived since, stays.",
            *_some([_verdict_line(one) for one in plan.assessed]),
        ],
        changes=len(expected),
        work=work,
        back=back,
        command=_redrive_command(asked, plan.assessed),
    )


def _redrive_command(asked: RedriveRequest, assessed: Sequence[AssessedLetter]) -> str | None:
    """Return the command that does the same; None if there is none.

    The command sends chosen letters that come back without a further option.
    """
    returning = any(one.verdict.comes_back for one in assessed)
    if returning and asked.is_chosen and not asked.returning:
        return None
    rest = {"rate": f"{asked.rate:g}", "returning": asked.returning and not asked.is_chosen}
    words = ["dlq", "redrive", *(asked.message_ids or ())]
    return shown_command(asked.service, words, query_values(asked) | rest)


def _send(
    state: ConsoleState,
    asked: RedriveRequest,
    redrive: Redrive,
    pages: LetterPages,
    why: str | None,
    progress: Progress,
) -> None:
    """Send letters back, show how far it is, and tell what became of those that stay."""

    def sent() -> None:
        progress.advance(redrive.walk.looked_at, redrive.counts)
        progress.check_stop(lambda: redrive.stopped_text)

    try:
        with logged_change(state.deployment, "dlq redrive", asked.for_log(), why) as change:
            redrive.send(pages, change, sent)
    finally:
        stayed = [
            f"{one.letter.message_id} stayed, as its verdict is now: {one.verdict}"
            for one in redrive.refused
        ]
        told = filter(None, [redrive.overtaken_text])
        progress.result = [*told, *_some(stayed), *_some(redrive.failed)]


def edit_page(request: Request) -> Response:
    """Return the form with a letter's body."""
    letter = read_letter(request).letter
    return _edit_form(request, printable_json(editable_text(letter)))


def _edit_form(request: Request, text: str, refused: str | None = None) -> Response:
    status = 200 if refused is None else 422
    values = {"text": text, "refused": refused, **request.path_params}
    return page(request, "dead_letter_edit.html", status=status, **values)


def plan_edit(request: Request, form: FormData) -> Job | Response:
    """Return the job that sends a letter back with another body; or the form, if it may not."""
    state, parts = state_of(request), request.path_params
    body = str(form.get("body") or "").replace("\r\n", "\n").strip()  # as forms send a line break
    asked = RedriveRequest(
        consumer=parts["consumer"],
        service=state.deployment.service,
        message_ids=[parts["message_id"]],
        edit=True,
    )
    opened = partial(open_redrive, state.deployment, asked, returning_too=True)

    def edited(redrive: Redrive) -> tuple[AssessedLetter, AssessedLetter]:
        """Return the letter as it is, and as it would be sent."""
        letters = [letter for some in asked.pages(redrive.walk) for letter in some]
        [before] = assess_letters(redrive.records, letters)
        return before, with_body(before, body, redrive.records)

    try:
        with state.letters.held(), opened() as redrive:
            before, after = edited(redrive)
    except RefusedEditError as error:
        return _edit_form(request, body, f"it cannot be sent so: {error}")
    outcome, is_sent = after.verdict.outcome, redrive.may_be_sent(after.verdict)

    def work(why: str | None, progress: Progress) -> None:
        with state.letters.changing(), opened() as redrive:
            _, after = edited(redrive)
            redrive.walk.raise_if_lapsed()
            redrive.expected = {after.letter.message_id: outcome}
            _send(state, asked, redrive, [[after.letter]], why, progress)

    return Job(
        title=f"Redrive {parts['message_id']} with its new body",
        plan=[
            *_identity_lines(before, after),
            _verdict_line(after),
            *([] if is_sent else ["it stays: `once dlq redrive --edit --unsafe` alone sends it"]),
        ],
        changes=int(is_sent),
        work=work,
        back=below_root(request, "letter", **parts),
    )


def _identity_lines(before: AssessedLetter, after: AssessedLetter) -> list[str]:
    if not isinstance(after.event, CloudEvent):
        return []
    was = fingerprint(before.event) if isinstance(before.event, CloudEvent) else "none"
    return [
        f"event: id {after.event.id}, source {after.event.source}, type {after.event.type}",
        f"dedup key: {after.pk or 'not known'}, before: {before.pk or 'not known'}",
        f"fingerprint: {fingerprint(after.event)}, before: {was}",
        "its history is kept, and notes that the body was edited",
    ]


def plan_purge(request: Request, form: FormData) -> Job:
    """Return the job that exports letters to files and deletes them."""
    state, (options, ids, back) = state_of(request), _chosen(request, form)
    chosen = options.letter_filter(ids)

    def opened() -> AbstractContextManager[QueueWalk]:
        return open_search(dead_letter_queues(state.deployment, options.consumer), options.limit)

    with state.letters.held(), opened() as search:
        letters = [letter for some in selected_letters(search, ids, chosen) for letter in some]
    names = {letter.message_id for letter in letters}
    counts = Counter((letter.queue.owner, reason_text(letter.reason)) for letter in letters)

    def work(why: str | None, progress: Progress) -> None:
        with state.letters.changing(), opened() as search:
            confirmed = _ConfirmedLetters(names, search)
            purge = LetterPurge(search, [one for some in confirmed.pages() for one in some])
            progress.total = len(purge.letters)
            files: list[str] = []

            def deleted() -> None:
                number = len(purge.deleted)
                progress.advance(number, {"deleted": number, "failed": len(purge.faults)})
                progress.check_stop(
                    lambda: f"stopped: {number} were deleted; the files have all that were planned"
                )

            told = options.for_log() | {"message_ids": ids}
            try:
                with logged_change(state.deployment, "dlq purge", told, why) as change:
                    purge.run(
                        None,
                        change,
                        exported=lambda file, some: files.append(
                            exported_text(file.resolve(), some)
                        ),
                        batch_deleted=deleted,
                    )
            finally:
                faults = _some([f"{name}: {said}" for name, said in purge.faults.items()])
                progress.result = [*files, *confirmed.missing_lines(), *faults]
        if purge.faults:
            raise OpsError(
                f"{len(purge.faults)} dead letters were not deleted: plan the purge again"
            )

    return Job(
        title=f"Export and delete {len(letters)} dead letters",
        plan=[
            f"A file for each consumer is written first, in {FOLDER.resolve()} of this machine, "
            "which you alone can read. A letter that cannot be written is not deleted.",
            "`once dlq import FILE` puts the letters back.",
            "Letters that have arrived since this dry run stay.",
            search.progress_text,
            *(f"{number} of {owner}: {why}" for (owner, why), number in sorted(counts.items())),
        ],
        changes=len(letters),
        work=work,
        back=back,
        command=shown_command(options.service, ["dlq", "purge", *ids], query_values(options)),
    )


class _ConfirmedLetters:
    """Second walk for the letters of a dry run; `missing` has the ids that were not found yet."""

    def __init__(self, ids: set[str], search: QueueWalk) -> None:
        self.missing = {*ids}
        self._search = search

    def pages(self) -> Iterator[Sequence[Letter]]:
        """Yield them in batches of one queue, until all are found or the queues are read."""
        for some in self._search.pages():
            found = [letter for letter in some if letter.message_id in self.missing]
            self.missing -= {letter.message_id for letter in found}
            if found:
                yield found
            if not self.missing:
                return

    def missing_lines(self) -> list[str]:
        """Return what became of the letters that were not found, as lines."""
        if not self.missing:
            return []
        self._search.count_hidden()
        hidden = self._search.hidden
        where = (
            f"sent, deleted or hidden by another command, or withheld by SQS ({hidden})"
            if hidden
            else "sent or deleted meanwhile by another command"
        )
        return [
            f"{len(self.missing)} letters of the dry run were not found: {where}",
            *_some(sorted(self.missing)),
        ]


def _chosen(request: Request, form: FormData) -> tuple[LetterOptions, list[str], str]:
    """Return a form's options, the ids of its letters, and the page to return to.

    Without ids, the options select the letters. With ids, they name the consumer alone.
    """
    options = letter_options(form, state_of(request).deployment.service)
    back = below_root(request, "dead-letters") + query_text(query_values(options))
    if form.get("which") != "chosen":
        return options, [], back
    if not (ids := [str(one) for one in form.getlist("id")]):
        raise BadParameter("no letter is chosen: check one, or take all that match the filter")
    return LetterOptions(consumer=options.consumer, service=options.service), ids, back


def _verdict_line(assessed: AssessedLetter) -> str:
    letter = assessed.letter
    return f"{letter.message_id}, {letter.queue.owner}: {assessed.verdict}"
