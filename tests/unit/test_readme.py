"""The README's examples are run as they stand."""

import re
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_handler_and_its_test_run() -> None:
    handler, its_test = BLOCKS[:2]
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(handler, "README.md", "exec"), names)
    exec(compile(its_test, "README.md", "exec"), names)
    assert set(names["consumer"].handlers) == {"seat.booked"}


def test_the_registry_line_is_one() -> None:
    from stacks.registry import Consumer, Table

    line = eval(BLOCKS[2], {"Consumer": Consumer, "Table": Table})
    assert line.name == "tickets"


def test_it_is_short() -> None:
    assert len(README.read_text().splitlines()) < 120
