"""Output on any terminal: encodings without our glyphs, and identifiers that can be copied."""

import io
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from once.ops import terminal
from once.ops.__main__ import app
from tests.ops.shop import Shop
from tests.ops.test_main import ALONE, DOCUMENTED, arguments

KEY = "payments#event#/once/inventory#0b1f9d1e-5a6f-4f43-9b57-0d2a1c3e4f5a"


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("command", sorted(DOCUMENTED.keys() - ALONE))
def test_every_command_prints_what_another_encoding_has_in_80_columns(
    shop: Shop, command: str
) -> None:
    shop.fail("a")
    message_id = shop.only_dead_letter().message_id
    done = CliRunner(charset="cp1252").invoke(
        app, [*command.split(), *map(str, arguments(shop, command))]
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    assert done.output
    if command in {"dlq show", "trace"}:
        assert message_id in done.output


@pytest.mark.parametrize("encoding", ["ascii", "cp437", "cp932"])
def test_glyphs_are_ascii_where_an_encoding_lacks_them(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
    terminal.adapt_streams()
    print("✓ safe ↩ comes back – and a key é\udcff 漢", flush=True)  # noqa: T201
    text = written.getvalue().decode(encoding)
    assert text.startswith("+ safe < comes back - and a key ")
    assert "\\udcff" in text


def test_a_pipe_of_another_encoding_gets_the_help_and_a_page() -> None:
    env = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    for arguments_ in (["--help"], ["explain", "key-conflict"]):
        command = [sys.executable, "-m", "once.ops", *arguments_]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.isascii()


@pytest.mark.usefixtures("narrow")
def test_a_table_that_would_break_an_identifier_is_printed_as_facts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def printed(*cells: str) -> str:
        shown = terminal.table("effect", "what happened", "dedup key", title="Effects")
        shown.add_row(*cells)
        terminal.console.print(shown)
        return capsys.readouterr().out

    as_table = printed("charge", "the provider has the key", KEY[:20])
    assert max(map(len, as_table.splitlines())) <= 80
    assert "│ charge" in as_table
    assert printed("charge", "unknown", KEY) == (
        f"Effects\neffect         charge\nwhat happened  unknown\ndedup key      {KEY}\n\n"
    )
