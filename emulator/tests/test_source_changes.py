"""Changes of an app's sources: code alone, or what a whole deployment is for."""

from pathlib import Path

import pytest

from emulator.local.source_changes import Sources, code_changes

HANDLER = """\
from once import Consumer
consumer = Consumer("tickets")
FEES = {"EUR": 1}

@consumer.handles("seat.booked", dict)
def book(event, tx):
    tx.put()
"""
FILES = {
    "cdk.json": "{}",
    "registry.py": "A = 1\n",
    "functions/tickets/handler.py": HANDLER,
    "functions/tickets/mail.py": "def mail(): ...\n",
    "functions/tickets/requirements.txt": "stripe\n",
    "once/names.py": "A = 1\n",
    "once/batch/processor.py": "def run(): ...\n",
    "once/cdk/props.py": "",
    "once/ops/send.py": "",
    "tests/test_tickets.py": "",
    ".cache/state.json": "",
}
OWN = "functions/tickets"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (f"{OWN}/handler.py", HANDLER.replace("put", "delete"), "tickets"),
        (f"{OWN}/handler.py", HANDLER.replace('"EUR": 1', '"EUR": 2'), "tickets"),
        (f"{OWN}/mail.py", "def mail(): return 1\n", "tickets"),
        (f"{OWN}/new.py", "def new(): ...\n", "tickets"),
        ("once/batch/processor.py", "def run(): return 1\n", "library"),
        ("once/ops/send.py", "B = 2\n", "nothing"),
        ("tests/test_tickets.py", "B = 2\n", "nothing"),
        (".cache/state.json", "{}", "nothing"),
        (f"{OWN}/handler.py", HANDLER.replace("seat.booked", "seat.freed"), "whole"),
        (f"{OWN}/handler.py", HANDLER + 'T = "a.type"\n', "whole"),
        (f"{OWN}/handler.py", HANDLER + "@consumer.rejects(x)\ndef f(): ...\n", "whole"),
        (f"{OWN}/handler.py", "no Python", "whole"),
        (f"{OWN}/new.py", "@consumer.handles('a')\ndef new(): ...\n", "whole"),
        (f"{OWN}/mail.py", None, "whole"),
        (f"{OWN}/requirements.txt", "stripe==1\n", "whole"),
        ("registry.py", "A = 2\n", "whole"),
        ("cdk.json", '{"app": ""}', "whole"),
        ("once/names.py", "def f(): ...\nA = 1\n", "whole"),
        ("once/cdk/props.py", "def f(): ...\n", "whole"),
    ],
)
def test_what_a_change_needs(tmp_path: Path, path: str, text: str | None, expected: str) -> None:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    kept = tmp_path.with_suffix(".json")
    Sources.of(tmp_path, frozenset({"tests"})).write(kept)
    file = tmp_path / path
    file.unlink() if text is None else file.write_text(text)
    before = Sources.read(kept)
    assert before
    now = Sources.of(tmp_path, frozenset({"tests"}))
    changes = code_changes(before, now, {"tickets": OWN, "other": "functions/other"})
    assert changes.other == (path if expected == "whole" else None)
    if not changes.other:
        code = {"tickets": ({"tickets": {path: path}}, {}), "library": ({}, {path: path})}
        assert (changes.consumers, changes.library) == code.get(expected, ({}, {}))
