"""The examples of README and documents are run as they stand."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"


def blocks(document: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)


def run(document: Path, *examples: str, **given: Any) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "example", **given}
    for example in examples:
        exec(compile(example, document.name, "exec"), names)
    return names


def test_the_handler_and_its_test_run() -> None:
    names = run(README, *blocks(README)[:2])
    assert set(names["consumer"].handlers) == {"seat.booked"}


def test_the_registry_line_is_one() -> None:
    from once.cdk import ConsumerProps, TableProps

    table, line = blocks(README)[2].splitlines()
    names = run(README, table, ConsumerProps=ConsumerProps, TableProps=TableProps)
    assert eval(line, names).name == "tickets"


def test_the_app_of_ones_own_is_the_one_that_the_wheels_test_deploys() -> None:
    [app] = blocks(ROOT / "docs" / "your-own-app.md")
    assert app == (ROOT / "tests" / "wheel" / "app" / "app.py").read_text()


def test_it_is_short() -> None:
    assert len(README.read_text().splitlines()) < 120


class Bank:
    """The provider of the example: answers from a list, and notes the keys."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.keys: list[str] = []

    def refund(self, amount: int, *, idempotency_key: str, timeout: float) -> Any:
        self.keys.append(idempotency_key)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_effect_and_its_test_run() -> None:
    bank, document = Bank(), ROOT / "docs" / "effects.md"
    run(document, *blocks(document), bank=bank)
    assert len(bank.keys) == 2
