"""An editor for `dlq redrive --edit`."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

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
    """The program in EDITOR: it writes the next of some texts, and keeps the text it opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.found, self._texts = folder / "found", folder / "texts"
        script = folder / "editor.py"
        script.write_text(_SCRIPT)
        monkeypatch.delenv("VISUAL", raising=False)
        command = [sys.executable, "-I", str(script), str(folder)]
        monkeypatch.setenv("EDITOR", shlex.join(command))

    def writes(self, *bodies: Any) -> None:
        """Set the texts: a text, a value to write as JSON, or None to leave the file unchanged."""
        texts = [body if isinstance(body, str | None) else json.dumps(body) for body in bodies]
        self._texts.write_text(json.dumps(texts))
