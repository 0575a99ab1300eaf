"""Edit: a dead letter with another body, from the operator's editor; its key must not change."""

import json
import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.events.identity import fingerprint
from once.failures.quarantine import allowed
from once.intake.original_message import OriginalMessage
from once.ops.dead_letters.assessment import LetterContext, read_contexts
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_text import body_text
from once.ops.dedup_records import (
    DedupRecordReader,
    UnreadableRecord,
    format_written_at,
    read_record,
)
from once.ops.errors import OpsError
from once.ops.terminal import escape_controls
from once.schema import Reason

_NEW_EVENT = "have the producer send a new event with an id of its own, and purge this one"


class RefusedEditError(OpsError):
    """A letter may not be sent with its new body; the message says why."""


def editable_text(letter: Letter) -> str:
    """Return a letter's body to be edited: indented if it is valid JSON."""
    return allowed(body_text(letter))


def printable_json(text: str) -> str:
    """Return a text with JSON's escapes for characters that cannot be seen.

    The meaning of valid JSON stays the same: such characters are inside its strings alone.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def with_body(context: LetterContext, text: str, records: DedupRecordReader) -> LetterContext:
    """Return the context of a letter with another body.

    Args:
        context: the letter with its event and record.
        text: the new body.
        records: the dedup records.

    Raises:
        RefusedEditError: the letter may not be sent with this body.
        OpsError: the body is the same.
        botocore.exceptions.BotoCoreError, ClientError: a record cannot be read.
    """
    if printable_json(text).strip() == printable_json(editable_text(context.letter)).strip():
        raise OpsError("the body was not changed, and nothing is sent: redrive it as it is")
    original = OriginalMessage(text, context.letter.original.attributes)
    letter = replace(context.letter, original=original, edited=True)
    [after] = read_contexts(records, [letter])
    if fault := _edit_error(context, after):
        raise RefusedEditError(fault)
    return after


def _edit_error(before: LetterContext, after: LetterContext) -> str | None:
    """Return why a letter may not be sent with its new body; None if it may."""
    if isinstance(after.event, OnceError):
        return _unreadable(after.event)
    if after.key.rejection is not None:
        return _unreadable(after.key.rejection)
    return _key_error(before, after, after.event) or _record_error(after, after.event)


def _unreadable(error: OnceError) -> str:
    return f"no consumer could read it, {error.reason}: {error}"


def _key_error(before: LetterContext, after: LetterContext, event: CloudEvent) -> str | None:
    """Return why the key would change; a changed key would process the event a second time."""
    was, letter = before.event, before.letter
    if isinstance(was, OnceError) or before.key.rejection is not None:
        return None  # no consumer could compute a key
    if event.type != was.type and letter.reason != Reason.UNKNOWN_TYPE:
        return f"its type would change, and with it the handler that makes its key: {_NEW_EVENT}"
    if before.pk is not None and after.pk is not None:
        return _changed(before.pk, after.pk) if before.pk != after.pk else None
    if _name(event) != _name(was):
        return _changed(_name(was), _name(event))
    if letter.reason == Reason.UNKNOWN_TYPE or (letter.queue.ingress and letter.reason):
        return None  # no consumer has computed a key
    return f"nothing tells whether its key would change: {_NEW_EVENT}"


def _record_error(context: LetterContext, event: CloudEvent) -> str | None:
    """Return why the record forbids the body; unknown volatile fields count as content."""
    if context.record is None:
        return None
    try:
        record = read_record(context.record)
    except UnreadableRecord as error:
        return (
            f"the record under its key {context.pk} cannot be read, and may say otherwise: {error}"
        )
    content = context.letter.queue.consumer.fingerprint(event) or fingerprint(event)
    if record.fingerprint == content:
        return None
    return (
        f"other content was committed under its key {context.pk} at {format_written_at(record)}: "
        f"it would come back as key-conflict; {_NEW_EVENT}"
    )


def _changed(was: str, would_be: str) -> str:
    return (
        f"the event's key would change, from {was} to {would_be}: put it back as it was, or "
        f"{_NEW_EVENT}"
    )


def _name(event: CloudEvent) -> str:
    return f"source {event.source!r} and id {event.id!r}"


def edit_letter(letter: Letter, records: DedupRecordReader) -> Letter:
    """Let the operator edit a letter's body until it can be sent; return the letter with it.

    Raises:
        OpsError: there is no editor, the body is unchanged, or the operator stops.
        botocore.exceptions.BotoCoreError, ClientError: a record cannot be read.
    """
    [context] = read_contexts(records, [letter])
    body = editable_text(letter)
    while True:
        body = _in_editor(body).strip()
        try:
            return with_body(context, body, records).letter
        except RefusedEditError as error:
            fault = str(error)
        typer.echo(f"it cannot be sent so: {escape_controls(fault)}", err=True)
        if not typer.confirm("edit again?", default=True, err=True):
            raise OpsError("nothing was sent: the dead letter is as it was")


def _in_editor(text: str) -> str:
    editor = os.environ.get("EDITOR") or os.environ.get("VISUAL")
    if not editor:
        raise OpsError("there is no editor: set EDITOR, such as EDITOR=vi")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "body.json"
        file.write_text(text, encoding="utf-8")
        try:
            # The command is the operator's own, and runs with the operator's rights.
            done = subprocess.run([*shlex.split(editor), str(file)], check=False)  # noqa: S603
        except OSError as error:
            raise OpsError(f"EDITOR={editor} cannot be started ({error}): set another") from None
        if done.returncode:
            raise OpsError(f"EDITOR={editor} ended with {done.returncode}: nothing is sent")
        return file.read_text(encoding="utf-8")
