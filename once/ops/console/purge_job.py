"""Purge jobs: dead letters are exported to a file and deleted, as `once dlq purge` does."""

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from once.ops.aws.clients import client
from once.ops.console.confirmed_letters import ConfirmedLetters, check_stop, some_lines
from once.ops.console.jobs import Job, Progress
from once.ops.console.letter_query import command_line
from once.ops.console.state import ConsoleState
from once.ops.dead_letters.export import FOLDER
from once.ops.dead_letters.letter import Letter, dead_letter_queues
from once.ops.dead_letters.letter_text import reason_text
from once.ops.dead_letters.purge import LetterPurge, exported_text
from once.ops.dead_letters.search import open_search
from once.ops.dead_letters.selection import LetterOptions, selected_letters
from once.ops.errors import OpsError
from once.ops.operator_log import logged_change


def purge_job(
    state: ConsoleState, options: LetterOptions, message_ids: Sequence[str], back: str
) -> Job:
    """Return the job for a purge, after a dry run.

    Args:
        state: the console.
        options: select the letters, if none are named.
        message_ids: the letters by id.
        back: path of the page to return to.

    Raises:
        OpsError: the letters cannot be found.
    """
    queues = dead_letter_queues(state.deployment, options.consumer)
    chosen = options.letter_filter(message_ids)
    with state.letters.held(), open_search(client("sqs"), queues, options.limit) as search:
        letters = [
            letter for page in selected_letters(search, message_ids, chosen) for letter in page
        ]
    return Job(
        title=f"Export and delete {len(letters)} dead letters",
        plan=[
            f"A file for each consumer is written first, in {FOLDER.resolve()} of this machine, "
            "which you alone can read. A letter that cannot be written is not deleted.",
            "`once dlq import FILE` puts the letters back.",
            "Letters that have arrived since this dry run stay.",
            search.progress_text,
            *_numbers(letters),
        ],
        changes=len(letters),
        work=partial(_purge, state, options, message_ids, {one.message_id for one in letters}),
        back=back,
        command=shlex.join([*command_line("purge", options), *message_ids]),
    )


def _numbers(letters: Sequence[Letter]) -> list[str]:
    counts = Counter((letter.queue.owner, reason_text(letter.reason)) for letter in letters)
    return [f"{number} of {owner}: {reason}" for (owner, reason), number in sorted(counts.items())]


def _purge(
    state: ConsoleState,
    options: LetterOptions,
    message_ids: Sequence[str],
    ids: Collection[str],
    why: str | None,
    progress: Progress,
) -> None:
    sqs, queues = client("sqs"), dead_letter_queues(state.deployment, options.consumer)
    with state.letters.changing(), open_search(sqs, queues, options.limit) as search:
        confirmed = ConfirmedLetters(ids, search)
        job = LetterPurge(search, [one for page in confirmed.pages() for one in page])
        progress.total = len(job.letters)
        files: list[str] = []
        told = options.for_log() | {"message_ids": [*message_ids]}
        try:
            with logged_change(state.deployment, "dlq purge", told, why) as change:
                job.run(
                    None,
                    change,
                    exported=lambda file, some: files.append(_exported(file, some)),
                    batch_deleted=partial(_note, job, progress),
                )
        finally:
            progress.result = [*files, *confirmed.result_lines(), *_fault_lines(job)]
    if job.faults:
        raise OpsError(f"{len(job.faults)} dead letters were not deleted: plan the purge again")


def _exported(file: Path, letters: Sequence[Letter]) -> str:
    return exported_text(file.resolve(), letters)


def _note(job: LetterPurge, progress: Progress) -> None:
    numbers = {"deleted": len(job.deleted), "failed": len(job.faults)}
    progress.advance(len(job.deleted), numbers)
    check_stop(
        progress,
        lambda: f"stopped: {len(job.deleted)} were deleted; the files have all that were planned",
    )


def _fault_lines(job: LetterPurge) -> list[str]:
    return some_lines([f"{name}: {said}" for name, said in job.faults.items()])
