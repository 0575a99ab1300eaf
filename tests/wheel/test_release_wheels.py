"""The wheels of a release hold the modules that their entry points name."""

import zipfile
from pathlib import Path

from proof.supply_chain.release_wheels import build

ENTRY_POINTS = {
    "once_consumer": "once/ops/__main__.py",
    "once_local": "emulator/local/command.py",
    "pytest_redelivery": "redelivery/command.py",
}


def test_every_distribution_is_built_with_its_modules(tmp_path: Path) -> None:
    built = {wheel.name.partition("-")[0]: wheel for wheel in build(tmp_path)}
    assert built.keys() == ENTRY_POINTS.keys()
    for name, module in ENTRY_POINTS.items():
        with zipfile.ZipFile(built[name]) as archive:
            assert module in archive.namelist()
            assert {info.date_time[:3] for info in archive.infolist()} == {(2000, 1, 1)}
