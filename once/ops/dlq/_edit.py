"""Edit: a dead letter's body in the operator's editor."""

import os
import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_context import LetterContext
from once.ops.dlq.letter_edit import ReadContext, RefusedEditError, editable_text, with_body
from once.ops.errors import OpsError
from once.ops.terminal.formatting import escape_controls


def edit_letter(context: LetterContext, look: ReadContext) -> Letter:
    """Let the operator edit a letter's body until it can be sent.

    Args:
        context: the letter with its event and record.
        look: reads the context of the edited letter.

    Returns:
        The letter with its new body.

    Raises:
        OpsError: there is no editor, the body is unchanged, or the operator stops.
    """
    text = editable_text(context.letter)
    while True:
        text = _in_editor(text).strip()
        try:
            return with_body(context, text, look).letter
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
