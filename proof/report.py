"""What a proof found, for machines: `reports/<name>.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "reports"


def write(name: str, figures: Mapping[str, Any]) -> Path:
    """Write a report and return its file; an earlier one of that name is replaced.

    Args:
        name: of the file, without its ending.
        figures: what is to stand in it, by the keys that readers know.
    """
    REPORTS.mkdir(exist_ok=True)
    file = REPORTS / f"{name}.json"
    file.write_text(json.dumps(figures, indent=2) + "\n")
    return file
