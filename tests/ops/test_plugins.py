"""Other distributions add commands; one that cannot be loaded leaves the others usable."""

from importlib.metadata import EntryPoint

import pytest
import typer

from once.ops import __main__

TRIED = typer.Typer()


def test_a_plugin_that_cannot_be_loaded_is_reported_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        EntryPoint("broken", "tests.ops.missing:app", __main__.PLUGIN_GROUP),
        EntryPoint("tried", "tests.ops.test_plugins:TRIED", __main__.PLUGIN_GROUP),
    ]
    monkeypatch.setattr(__main__, "entry_points", lambda *, group: found)
    assert [name for name, _ in __main__._plugin_commands()] == ["tried"]
    assert (
        "the command 'broken' (tests.ops.missing:app) cannot be loaded" in capsys.readouterr().err
    )
