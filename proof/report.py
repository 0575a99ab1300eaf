"""Reports `reports/<name>.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "reports"


def write(name: str, figures: Mapping[str, Any]) -> Path:
    """Write a report, replace an earlier one of that name, and return its file."""
    REPORTS.mkdir(exist_ok=True)
    file = REPORTS / f"{name}.json"
    file.write_text(json.dumps(figures, indent=2) + "\n")
    return file
