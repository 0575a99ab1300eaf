import json
from pathlib import Path

import pytest

from demo.pictures import FOLDER, pictures
from demo.report import FAULT_FIGURES


@pytest.mark.parametrize("name", ["demo.svg", "trace.svg"])
def test_a_picture_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == pictures()[name], "run `make docs`"


def test_the_recorded_run_was_clean_in_spite_of_faults() -> None:
    figures = json.loads((FOLDER / "demo.json").read_text())
    assert {name: figures[name] for name in FAULT_FIGURES if name in figures} == dict.fromkeys(
        FAULT_FIGURES, 0
    )
    assert figures["charge_answers_dropped"] >= 50
    assert figures["functions_killed"] >= 20


def test_a_picture_shows_the_figures_of_its_data(tmp_path: Path) -> None:
    for name in ("demo.json", "trace.json"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    figures = json.loads((tmp_path / "demo.json").read_text())
    (tmp_path / "demo.json").write_text(json.dumps({**figures, "lost": 77}))
    drawn = pictures(tmp_path)
    assert "77" in drawn["demo.svg"]
    assert drawn["demo.svg"] != pictures()["demo.svg"]
    assert drawn["trace.svg"] == pictures()["trace.svg"]


def test_a_picture_loads_no_other_resource() -> None:
    for picture in pictures().values():
        assert "@font-face" not in picture
        assert "http" not in picture.replace("http://www.w3.org/2000/svg", "").replace(
            "https://www.textualize.io", ""
        )
