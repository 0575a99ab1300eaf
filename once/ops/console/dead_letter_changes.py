"""Changes of dead letters: redrive, edit, purge and import, each as a job after a dry run.

Forms of the pages of dead letters lead here. A confirmed job walks through the queues again, and
takes the messages of its dry run alone: those that arrived since stay.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from typer import BadParameter

from once.ops.acknowledging import DEFAULT_PERIOD, acknowledge
from once.ops.aws.clients import RateLimiter, batches
from once.ops.console.dead_letter_pages import query_values, read_message, search_options
from once.ops.console.jobs import Job, NextStep, PlanGroup, Progress, number_field
from once.ops.console.rendering import FormData, Request, Response, below_root, page, query_text
from once.ops.console.state import ConsoleState, state_of
from once.ops.dead_letters import archive, queue_walk
from once.ops.dead_letters.assessment import AssessedMessage, RedriveOutcome, assess_messages
from once.ops.dead_letters.dead_letter import DeadLetter
from once.ops.dead_letters.dead_letter_text import reason_text
from once.ops.dead_letters.edit import RefusedEditError, editable_text, printable_json, with_body
from once.ops.dead_letters.grouping import advice_of
from once.ops.dead_letters.redrive import (
    MessageBatches,
    Redrive,
    RedriveRequest,
    open_redrive,
    returning_number,
)
from once.ops.errors import OpsError
from once.ops.operator_changes import logged_change
from once.ops.terminal import counted, first_lines, format_age, parse_age_option

MAX_LINES = 30
"""Maximum number of messages that the page of a job names one by one."""
_MAX_REASONS = 5
_MAX_EDITED = 30_000
_some = partial(first_lines, most=MAX_LINES)


def plan_redrive(request: Request, form: FormData) -> Job:
    """Return the job that sends messages back; nothing unsafe is ever sent."""
    state, (options, ids, back) = state_of(request), _chosen(request, form)
    asked = RedriveRequest(
        **vars(options),
        message_ids=ids,
        returning=bool(form.get("returning")),
        rate=number_field(form, 10, 0.1, 1000),
    )
    opened = partial(open_redrive, state.deployment, asked, returning_too=asked.returning)
    with state.messages.held(), opened() as redrive:
        plan = redrive.dry_run(asked.pages(redrive.walk))
    expected = {one.message.message_id: one.verdict.outcome for one in plan.sent}

    def work(why: str | None, progress: Progress) -> None:
        with state.messages.changing(), opened() as redrive:
            redrive.expected = expected
            progress.total = redrive.walk.about.total
            missing, most = {*expected}, RateLimiter(asked.rate).max_per_call
            pages = _confirmed(redrive.walk, missing)
            # A stop waits for one call alone.
            calls = (call for some in pages for call in batches(some, most))
            _send(state, asked, redrive, calls, why, progress)
            # After a stop or an error, the others were not reached, and are as they were.
            progress.result = [*progress.result, *_missing_lines(redrive.walk, missing)]

    groups = [
        *_plan_groups(plan.sent, "will be sent"),
        *_plan_groups(plan.refused, "stay"),
        *_plan_groups(plan.waiting, "stay, behind others of their message group"),
    ]
    left = returning_number(plan.refused)
    return Job(
        title=f"Redrive {counted(len(expected), 'dead letter')}",
        plan=[
            *filter(None, [redrive.overtaken_text]),
            redrive.walk.progress_text,
            "Each message is assessed again before it is sent. A message whose verdict has changed "
            "by then, or that has arrived since, stays.",
        ],
        changes=len(expected),
        work=work,
        undo=_UNDO_REDRIVE,
        groups=groups,
        fails_again=returning_number(plan.sent) > 0,
        instead=NextStep(
            f"Plan again, and send also the {left} that will fail again",
            "plan-redrive",
            [*_form_fields(asked, form), ("returning", "yes")],
        )
        if left
        else None,
        back=back,
    )


_UNDO_REDRIVE = (
    "A message that was sent is in its consumer's queue, and cannot be taken back. Nothing is done "
    "twice: what was committed before is acknowledged, and what fails again is a dead letter again."
)


def _form_fields(options: queue_walk.SearchOptions, form: FormData) -> list[tuple[str, str]]:
    chosen = [(name, str(form[name])) for name in ("which", "rate") if name in form]
    ids = [("id", str(one)) for one in form.getlist("id")]
    return [*query_values(options).items(), *chosen, *ids]


def _plan_groups(assessed: Sequence[AssessedMessage], action: str) -> Iterator[PlanGroup]:
    """Yield the part of a plan that does one action, a group for each verdict."""
    for kind in RedriveOutcome:
        some = [one for one in assessed if one.verdict.outcome is kind]
        if some:
            whys = Counter(advice_of(one) for one in some).most_common()
            lines = [why if number == len(some) else f"{number}: {why}" for why, number in whys]
            things = [(one.message.queue.owner, one.message.message_id) for one in some]
            yield PlanGroup(
                kind, len(some), action, first_lines(lines, _MAX_REASONS), things[:MAX_LINES]
            )


def _send(
    state: ConsoleState,
    asked: RedriveRequest,
    redrive: Redrive,
    pages: MessageBatches,
    why: str | None,
    progress: Progress,
) -> None:
    """Send messages back, show the progress, and name those that stay, with their verdicts."""

    def sent() -> None:
        progress.advance(redrive.walk.looked_at, redrive.counts)
        progress.check_stop(lambda: redrive.stopped_text)

    try:
        with logged_change(state.deployment, "dlq redrive", asked.for_log(), why) as change:
            redrive.send(pages, change, sent)
    finally:
        stayed = [
            f"{one.message.message_id} stayed, as its verdict is now: {one.verdict}"
            for one in redrive.refused
        ]
        told = filter(None, [redrive.overtaken_text])
        progress.result = [*told, *_some(stayed), *_some(redrive.failed)]


def edit_page(request: Request) -> Response:
    message = read_message(request).value.message
    text = printable_json(editable_text(message))
    return _edit_form(request, text if len(text) <= _MAX_EDITED else None)


def _edit_form(request: Request, text: str | None, refused: str | None = None) -> Response:
    status = 200 if refused is None else 422
    values = {"text": text, "refused": refused, **request.path_params}
    return page(request, "dead_letter_edit.html", status=status, **values)


def plan_edit(request: Request, form: FormData) -> Job | Response:
    """Return the job that sends a message back with another body; or the form, if it may not."""
    state, parts = state_of(request), request.path_params
    body = str(form.get("body") or "").replace("\r\n", "\n").strip()  # as forms send a line break
    asked = RedriveRequest(
        consumer=parts["consumer"],
        service=state.deployment.service,
        message_ids=[parts["message_id"]],
        edit=True,
    )
    opened = partial(open_redrive, state.deployment, asked, returning_too=True)

    def edited(redrive: Redrive) -> tuple[AssessedMessage, AssessedMessage]:
        """Return the message as it is, and as it would be sent."""
        messages = [message for some in asked.pages(redrive.walk) for message in some]
        [before] = assess_messages(redrive.records, messages)
        return before, with_body(before, body, redrive.records)

    try:
        with state.messages.held(), opened() as redrive:
            before, after = edited(redrive)
    except RefusedEditError as error:
        return _edit_form(request, body, f"it cannot be sent so: {error}")
    outcome, is_sent = after.verdict.outcome, redrive.may_be_sent(after.verdict)

    def work(why: str | None, progress: Progress) -> None:
        with state.messages.changing(), opened() as redrive:
            _, after = edited(redrive)
            redrive.walk.raise_if_lapsed()
            redrive.expected = {after.message.message_id: outcome}
            _send(state, asked, redrive, [[after.message]], why, progress)

    return Job(
        title=f"Redrive {parts['message_id']} with its new body",
        plan=[
            f"Dedup key: {after.pk or 'not known'}, before: {before.pk or 'not known'}.",
            "The message keeps its history, which notes that the body was edited.",
            *([] if is_sent else ["`once dlq redrive --edit --unsafe` alone sends it"]),
        ],
        changes=int(is_sent),
        work=work,
        undo=_UNDO_REDRIVE,
        fails_again=after.verdict.fails_again,
        groups=[*_plan_groups([after], "will be sent" if is_sent else "stays")],
        back=below_root(request, "dead-letter", **parts),
    )


def plan_acknowledgement(request: Request, form: FormData) -> Job:
    """Return the job that notes that the operator works on a consumer's failures."""
    state = state_of(request)
    given = search_options(form, state.deployment.service)
    consumer, period = str(given.consumer), parse_age_option(DEFAULT_PERIOD, option="")

    def work(why: str | None, progress: Progress) -> None:
        acknowledge(state.deployment, consumer, given.reason, given.error, why=why, period=period)
        progress.advance(1, {"noted": 1})

    about = ", ".join(filter(None, (consumer, given.reason, given.error)))
    return Job(
        title=f"Acknowledge the failures of {consumer}",
        plan=[f"Others see for {format_age(period)} that you work on it, and your reason: {about}"],
        changes=1,
        work=work,
        undo=f"`once ack {consumer} --done` removes the note.",
        back=below_root(request, "dead-letters") + query_text(query_values(given)),
    )


def plan_purge(request: Request, form: FormData) -> Job:
    """Return the job that archives messages and deletes them."""
    state, (options, ids, back) = state_of(request), _chosen(request, form)
    chosen = options.message_filter(ids)
    opened = partial(options.search, state.deployment)
    with state.messages.held(), opened() as walk:
        messages = [
            message for some in queue_walk.selected_messages(walk, ids, chosen) for message in some
        ]
    names = {message.message_id for message in messages}
    counts = Counter((message.queue.owner, reason_text(message.reason)) for message in messages)

    def work(why: str | None, progress: Progress) -> None:
        with state.messages.changing(), opened() as walk:
            missing = {*names}
            found = [message for some in _confirmed(walk, missing) for message in some]
            purge = archive.MessagePurge(state.deployment, walk, found)
            progress.total = len(purge.messages)

            def deleted() -> None:
                number = len(purge.deleted)
                progress.advance(number, {"deleted": number, "failed": len(purge.faults)})
                progress.check_stop(
                    lambda: f"stopped: {number} were deleted; all that were planned are archived"
                )

            told = options.for_log() | {"message_ids": ids, "archive": purge.name}
            try:
                with logged_change(state.deployment, "dlq purge", told, why) as change:
                    purge.run(change, why, batch_deleted=deleted)
            finally:
                if purge.archive:
                    step = f"Plan the import of {purge.name}"
                    progress.undo = [NextStep(step, "plan-import", [("archive", purge.name)])]
                faults = _some([f"{name}: {said}" for name, said in purge.faults.items()])
                progress.result = [purge.archived_text, *_missing_lines(walk, missing), *faults]
        if purge.faults:
            raise OpsError(
                f"{len(purge.faults)} dead letters were not deleted: plan the purge again"
            )

    return Job(
        title=f"Archive and delete {counted(len(messages), 'dead letter')}",
        plan=[
            "The messages are archived first, with your reason, for 30 days and for every "
            "operator. A message that cannot be archived is not deleted.",
            "Messages that have arrived since this dry run stay.",
            walk.progress_text,
            *(f"{number} of {owner}: {why}" for (owner, why), number in sorted(counts.items())),
        ],
        changes=len(messages),
        work=work,
        undo="An import of the archive puts the messages back; their keys are known for weeks.",
        deletes=True,
        needs_reason=True,
        back=back,
    )


def plan_import(request: Request, form: FormData) -> Job:
    """Return the job that puts the messages of an archive back; none past its `safe_until`."""
    state, into = state_of(request), str(form.get("into") or "") or None
    archives, again = archive.Archives(state.deployment), bool(form.get("again"))
    note = archives.find(str(form.get("archive") or ""))
    messages = archives.read(note)

    def planned() -> archive.MessageImport:
        found = archive.MessageImport.of(state.deployment, note, messages, into)
        found.plan(messages, queue_walk.DEFAULT_LIMIT, again=again, unsafe=False)
        return found

    with state.messages.held():
        plan = planned()
    confirmed = {message.message_id for message in plan.new}

    def work(why: str | None, progress: Progress) -> None:
        told = {
            "archive": note.name,
            "into": into,
            "again": again,
            "service": state.deployment.service,
        }
        with state.messages.changing():
            done = planned()
            done.new = [message for message in done.new if message.message_id in confirmed]
            with logged_change(state.deployment, "dlq import", told, why) as change:
                done.run(change)
        progress.advance(len(done.new), change.counts)
        progress.result = _some([f"{one}: {said}" for one, said in done.failed.items()])
        if done.failed:
            raise OpsError("not all dead letters were imported: plan the import again")

    stays = {
        "are there already": plan.already_present,
        "were imported before, and are gone since (a box in the form includes them)": (
            plan.imported_before
        ),
        "are past the time until which an import is safe": plan.past_safe_until,
    }
    return Job(
        title=f"Import {counted(len(plan.new), 'dead letter')}",
        plan=[
            f"{len(messages)} are in {note.name}",
            *(f"{len(some)} {why}: they are left out" for why, some in stays.items() if some),
        ],
        changes=len(plan.new),
        work=work,
        undo="Archive and delete the messages again.",
        back=below_root(request, "dead-letters"),
    )


def _confirmed(walk: queue_walk.QueueWalk, missing: set[str]) -> Iterator[Sequence[DeadLetter]]:
    """Yield the messages of a dry run in batches of one queue, and take their ids out of the set.

    It ends when all are found, or the queues are read.
    """
    for some in walk.pages():
        if found := [message for message in some if message.message_id in missing]:
            missing -= {message.message_id for message in found}
            yield found
        if not missing:
            return


def _missing_lines(walk: queue_walk.QueueWalk, missing: set[str]) -> list[str]:
    """Return lines about planned messages that the second walk did not find."""
    if not missing:
        return []
    walk.count_hidden()
    where = "sent or deleted meanwhile by another command"
    if walk.hidden:
        where = f"sent, deleted or hidden by another command, or withheld by SQS ({walk.hidden})"
    number = len(missing)
    return [f"{number} messages of the dry run were not found: {where}", *_some(sorted(missing))]


def _chosen(request: Request, form: FormData) -> tuple[queue_walk.SearchOptions, list[str], str]:
    """Return a form's options, the ids of its messages, and the page to return to.

    Without ids, the options select the messages. With ids, they name the consumer alone.
    """
    options = search_options(form, state_of(request).deployment.service)
    back = below_root(request, "dead-letters") + query_text(query_values(options))
    if form.get("which") != "chosen":
        return options, [], back
    if not (ids := [str(one) for one in form.getlist("id")]):
        raise BadParameter("no message is chosen: check one, or take all that match the filter")
    return (
        queue_walk.SearchOptions(consumer=options.consumer, service=options.service),
        ids,
        back,
    )
