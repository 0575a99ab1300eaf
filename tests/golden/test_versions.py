"""Every released version of the schema has its folder."""

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
        "a folder of its own, with what it writes; no earlier one is changed"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_keeps_all_data_that_outlives_a_deployment(version: int) -> None:
    found = {file.name for file in (FOLDER / f"v{version}").glob("*.*")}
    assert found == {f"{name}.json" for name in FILES}
