"""Commands in memory: their run, their output, and calls that are refused, answered or recorded."""

import json
from types import SimpleNamespace
from typing import Any

import boto3
from typer import Typer
from typer.testing import CliRunner, Result

from once.failures.quarantine import text
from once.names import DeadLetterAttribute
from once.ops.__main__ import app

OK = SimpleNamespace(status_code=200)
REFUSED = SimpleNamespace(status_code=400)
THROTTLED_ENTRY = {"Code": "Throttled", "SenderFault": False}
REFUSED_ENTRY = {"Code": "InvalidParameter", "Message": "too odd", "SenderFault": True}


def run(*arguments: object, app: Typer = app, answer: str | None = None) -> Result:
    """Run `once` with these arguments; `answer` is its standard input."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=answer)


def refusal(code: str, message: str = "no") -> tuple[Any, dict[str, Any]]:
    """The answer of a service that refuses a call."""
    return REFUSED, {"Error": {"Code": code, "Message": message}}


def answer_with(operation: str, answer: Any) -> None:
    """Let `answer(params)` answer an operation, such as `sns.PublishBatch`; None sends the call."""
    session = boto3.DEFAULT_SESSION
    assert session is not None
    session.events.register_first(f"before-call.{operation}", lambda params, **_: answer(params))


def answer_once(operation: str, answer: Any) -> None:
    """Answer the next call of an operation with this, and send all later ones."""
    answers = [answer]
    answer_with(operation, lambda params: answers.pop() if answers else None)


def refuse(operation: str, code: str = "AccessDeniedException") -> None:
    answer_with(operation, lambda params: refusal(code))


def fail_entries(operation: str, failure: dict[str, Any], *positions: int, times: int = 1) -> None:
    """Fail entries of a batch call in SQS's JSON, so many times; the rest is left unanswered."""
    left = iter(range(times))

    def answer(params: Any) -> Any:
        if next(left, None) is None:
            return None
        entries = json.loads(params["body"])["Entries"]
        chosen = [e["Id"] for e in entries if not positions or int(e["Id"]) in positions]
        return OK, {"Successful": [], "Failed": [{"Id": name, **failure} for name in chosen]}

    answer_with(operation, answer)


def requests_of(operation: str) -> list[Any]:
    """The request bodies of an operation from now on."""
    found: list[Any] = []
    answer_with(operation, lambda params: found.append(json.loads(params["body"])))
    return found


def add_to_answer(operation: str, change: Any) -> None:
    """Let `change(answer)` change the answers of an operation, such as `sqs.ReceiveMessage`."""
    session = boto3.DEFAULT_SESSION
    assert session is not None
    session.events.register_last(f"after-call.{operation}", lambda parsed, **_: change(parsed))


def facts(**values: str) -> dict[str, Any]:
    """Dead-letter attributes by the names of their constants, in lower case."""
    return {
        getattr(DeadLetterAttribute, name.upper()): text(value) for name, value in values.items()
    }


def stdout_of(*arguments: object) -> str:
    """Run a command that succeeds."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def stderr_of(*arguments: object, code: int = 1) -> str:
    """Run a command that fails; return its error text on one line."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return words(result.stderr)


def words(output: str) -> str:
    """The output on one line, without the lines of its tables."""
    return " ".join("".join(" " if c in "│┃━─┌└├" else c for c in output).split())


def rows(output: str) -> list[list[str]]:
    """The cells of a table, row by row, without its head."""
    lines = [line for line in output.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def numbers(output: str) -> dict[str, str]:
    """The rows of a table of two columns."""
    return {name: number for name, number, *_ in rows(output)}
