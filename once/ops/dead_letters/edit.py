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
from once.events import cloud_event, identity
from once.failures.quarantine import allowed
from once.intake.original_message import OriginalMessage
from once.names import Reason
from once.ops import dedup_records, terminal
from once.ops.dead_letters.assessment import AssessedMessage, assess_messages
from once.ops.dead_letters.dead_letter import DeadLetter
from once.ops.dead_letters.dead_letter_text import body_text
from once.ops.errors import OpsError

_NEW_EVENT = "have the producer send a new event with an id of its own, and purge this one"


class RefusedEditError(OpsError):
    """A message may not be sent with its new body; the message says why."""


def editable_text(message: DeadLetter) -> str:
    """Return a message's body to be edited: indented if it is valid JSON."""
    return allowed(body_text(message))


def printable_json(text: str) -> str:
    """Return a text with JSON's escapes for characters that cannot be seen.

    The meaning of valid JSON stays the same: such characters are inside its strings alone.
    """
    escaped = (c if c.isprintable() or c in "\n\t" else json.dumps(c)[1:-1] for c in text)
    return "".join(escaped).replace("\x7f", "\\u007f")  # which json.dumps leaves as it is


def with_body(
    before: AssessedMessage, text: str, records: dedup_records.DedupRecordReader
) -> AssessedMessage:
    """Return a message with the text as its body, assessed again.

    Raises:
        RefusedEditError: the message may not be sent with this body.
    """
    if printable_json(text).strip() == printable_json(editable_text(before.message)).strip():
        raise OpsError("the body was not changed, and nothing is sent: redrive it as it is")
    original = OriginalMessage(text, before.message.original.attributes)
    [after] = assess_messages(records, [replace(before.message, original=original, edited=True)])
    error = after.event if isinstance(after.event, OnceError) else after.rejection
    if error is not None:
        raise RefusedEditError(f"no consumer could read it, {error.reason}: {error}")
    if fault := _key_error(before, after) or _record_error(after):
        raise RefusedEditError(fault)
    return after


def _key_error(before: AssessedMessage, after: AssessedMessage) -> str | None:
    """Return why the key would change; a changed key would process the event a second time."""
    was, event, message = before.event, after.event, before.message
    if isinstance(event, OnceError) or isinstance(was, OnceError) or before.rejection is not None:
        return None  # no consumer could compute a key
    if event.type != was.type and message.reason != Reason.UNKNOWN_TYPE:
        return f"its type would change, and with it the handler that makes its key: {_NEW_EVENT}"
    is_known = before.pk is not None and after.pk is not None
    names = (before.pk, after.pk) if is_known else (_name(was), _name(event))
    if names[0] != names[1]:
        return (
            f"the event's key would change, from {names[0]} to {names[1]}: put it back as it was, "
            f"or {_NEW_EVENT}"
        )
    if (
        is_known
        or message.reason == Reason.UNKNOWN_TYPE
        or (message.queue.ingress and message.reason)
    ):
        return None  # of the last two, no consumer has computed a key
    return f"nothing tells whether its key would change: {_NEW_EVENT}"


def _record_error(after: AssessedMessage) -> str | None:
    """Return why the record forbids the body; unknown volatile fields count as content."""
    if after.record is None or isinstance(after.event, OnceError):
        return None
    try:
        record = dedup_records.read_record(after.record)
    except dedup_records.UnreadableRecord as error:
        return f"the record under its key {after.pk} cannot be read, and may say otherwise: {error}"
    event = after.event
    content = after.message.queue.consumer.fingerprint(event) or identity.fingerprint(event)
    if record.fingerprint == content:
        return None
    return (
        f"other content was committed under its key {after.pk} at "
        f"{dedup_records.format_written_at(record)}: it would fail again as key-conflict; "
        f"{_NEW_EVENT}"
    )


def _name(event: cloud_event.CloudEvent) -> str:
    return f"source {event.source!r} and id {event.id!r}"


def edit_message(message: DeadLetter, records: dedup_records.DedupRecordReader) -> DeadLetter:
    """Let the operator edit a message's body until it can be sent; return the message with it."""
    [before] = assess_messages(records, [message])
    body = editable_text(message)
    while True:
        body = _in_editor(body).strip()
        try:
            return with_body(before, body, records).message
        except RefusedEditError as error:
            fault = str(error)
        typer.echo(f"it cannot be sent so: {terminal.escape_controls(fault)}", err=True)
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
