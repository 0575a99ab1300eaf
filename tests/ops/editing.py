"""An editor for `dlq redrive --edit`, as the tests have it."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from once.ops.__main__ import app
from tests.ops.letters import Shop

_SCRIPT = """
import json, pathlib, sys
folder, file = map(pathlib.Path, sys.argv[1:])
(folder / "found").write_text(file.read_text())
first, *rest = json.loads((folder / "texts").read_text())
(folder / "texts").write_text(json.dumps(rest))
if first is not None:
    file.write_text(first)
"""


class Editor:
    """Set as EDITOR, it writes the next of some texts, and keeps what it found."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.found, self._texts = folder / "found", folder / "texts"
        script = folder / "editor.py"
        script.write_text(_SCRIPT)
        monkeypatch.delenv("VISUAL", raising=False)
        command = [sys.executable, "-I", str(script), str(folder)]
        monkeypatch.setenv("EDITOR", shlex.join(command))

    def writes(self, *bodies: Any) -> None:
        """Say what it will write, in order: a text, JSON, or nothing where it is None."""
        texts = [body if isinstance(body, str | None) else json.dumps(body) for body in bodies]
        self._texts.write_text(json.dumps(texts))


def edit(shop: Shop, *options: object, answers: str = "n\n") -> Result:
    """Edit the only dead letter."""
    arguments = ["dlq", "redrive", shop.letter().message_id, "--edit", *options]
    return CliRunner().invoke(app, [str(one) for one in arguments], input=answers)


def refused(shop: Shop) -> str:
    """Edit in vain; return what is said, and see that the letter is as it was."""
    before = shop.letter().original
    result = edit(shop)
    assert result.exit_code == 1
    assert shop.waiting() == []
    assert shop.hidden() == 0
    assert shop.letter().original == before
    return " ".join(result.stderr.split())
