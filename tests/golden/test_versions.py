"""Every released version of the schema has its folder, and a reader that is its own."""

import ast
import sys

import pytest

from once.names import SCHEMA_VERSION
from tests.golden.versions import FOLDER, VERSIONS, Item, cases, golden, reader

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


@pytest.mark.parametrize(("version", "case"), cases("records"))
def test_a_reader_reads_the_records_of_its_own_version(version: int, case: Item) -> None:
    assert reader(version).record(case["item"]) == case["read"]
    assert reader(version).trail(case["item"]) == case["trail"]


@pytest.mark.parametrize("name", ["commit", "committed_at", "expires_at", "fingerprint", "state"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_reader_rejects_a_record_without_a_required_attribute(version: int, name: str) -> None:
    module = reader(version)
    item = golden(version, "records")["accepted"]["item"]
    renamed = {key: value for key, value in item.items() if key != name} | {f"new_{name}": {}}
    retyped = item | {name: {"BOOL": True}}
    for broken in (renamed, retyped):
        with pytest.raises(module.Unreadable, match=name):
            module.record(broken)
