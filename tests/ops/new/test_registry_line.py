"""The line of a new consumer in the source of a registry."""

import subprocess
import sys
from pathlib import Path

import pytest

from once.ops.errors import OpsError
from once.ops.new.registry_line import RegistryLine, with_line
from stacks.registry import REGISTRY

RUFF = Path(sys.executable).with_name("ruff")
IMPORT = "from once.cdk import ConsumerProps, TableProps\n"
LINE = RegistryLine(
    name="refunds",
    key="refund_id",
    external=("refund.requested",),
    events=("payment.captured", "payment.declined"),
)
LONG = RegistryLine(
    name="a" * 40,
    key="b" * 40,
    external=tuple(f"{'c' * 30}.{number}" for number in range(3)),
    events=(),
)


def is_formatted(source: str) -> bool:
    command = [str(RUFF), "format", "--check", "--stdin-filename", "stacks/consumers.py", "-"]
    return subprocess.run(command, input=source, text=True, check=False).returncode == 0


@pytest.mark.parametrize("line", [LINE, LONG], ids=["usual", "long"])
@pytest.mark.parametrize(
    "source",
    [
        REGISTRY.file.read_text(),
        f"{IMPORT}\nCONSUMERS = (\n)\n",
        f'{IMPORT}\nA = 1\n\nCONSUMERS: Sequence[Any] = (\n    ConsumerProps("a"),\n)\n',
        f'{IMPORT}\nCONSUMERS = [\n    ConsumerProps("a"),\n]\n\nMORE = 1\n',
    ],
    ids=["the shop's", "empty", "annotated", "list"],
)
def test_a_line_is_added_and_the_rest_stays(source: str, line: RegistryLine) -> None:
    added = with_line(source, line, Path("consumers.py"))
    assert is_formatted(added)
    assert added.index(line.table_text()) < added.index("CONSUMERS")
    rest = added.replace(line.consumer_text(), "").replace(line.table_text(), "")
    assert "".join(rest.split()) == "".join(source.split())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("CONSUMERS = (", "is no Python"),
        ("CONSUMERS = (\n)\n", "does not import ConsumerProps and TableProps: add `from once.cdk"),
        (f"{IMPORT}\nLINES = (\n)\n", "has no tuple CONSUMERS with each entry on lines of its own"),
        (f'{IMPORT}\nCONSUMERS = (ConsumerProps("a"),)\n', "each entry on lines of its own"),
        (f"{IMPORT}\nCONSUMERS = tuple(\n    [],\n)\n", "each entry on lines of its own"),
        (f"{IMPORT}\nREFUNDS = 1\nCONSUMERS = (\n)\n", "has the name REFUNDS already"),
    ],
)
def test_a_registry_that_cannot_be_edited_is_refused(source: str, said: str) -> None:
    with pytest.raises(OpsError, match=said):
        with_line(source, LINE, Path("consumers.py"))
