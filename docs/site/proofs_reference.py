"""Proofs reference: the tests of each fault in the guarantees, as Markdown."""

import tomllib
from pathlib import Path

DATA = Path(__file__).parents[1] / "proofs.toml"


def reference() -> str:
    """Return a table of faults with the tests that show how each one ends."""
    proofs = tomllib.loads(DATA.read_text())
    rows = (
        f"| {fault} | {'<br>'.join(f'`{t}`' for t in tests)} |" for fault, tests in proofs.items()
    )
    return "\n".join(["| fault | shown by |", "|---|---|", *rows])
