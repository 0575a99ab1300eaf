"""Commands run to their end, and their output taken apart."""

from tests.ops.support import run


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
