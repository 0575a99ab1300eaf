"""Every released version of the schema has its folder, and a reader that is its own."""

import ast
import sys

import pytest

from once.names import SCHEMA_VERSION
from tests.golden.versions import FOLDER, VERSIONS

FILES = (
    *("captures", "changes", "consumers", "events", "item_records", "items", "keys", "letters"),
    *("purged", "records"),
)


def test_every_version_has_a_folder() -> None:
    assert [*range(1, SCHEMA_VERSION + 1)] == VERSIONS, (
        f"SCHEMA_VERSION is {SCHEMA_VERSION}, and tests/golden has {VERSIONS}: a new version takes "
        "a folder of its own, with what it writes and its reader; no earlier one is changed"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_keeps_all_data_that_outlives_a_deployment(version: int) -> None:
    found = {file.name for file in (FOLDER / f"v{version}").glob("*.*")}
    assert found == {"reader.py", *(f"{name}.json" for name in FILES)}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reader_imports_the_standard_library_only(version: int) -> None:
    modules = set()
    for node in ast.walk(ast.parse((FOLDER / f"v{version}" / "reader.py").read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(str(node.module))
    assert {module.partition(".")[0] for module in modules} <= sys.stdlib_module_names
