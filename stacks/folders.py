"""Folders of the example shop."""

from pathlib import Path

from once.cdk import ConsumerProps, WebhookProps

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = ROOT / "functions"


def handler_folder(line: ConsumerProps | WebhookProps, functions: Path = FUNCTIONS) -> Path:
    """Return the folder of a line's `handler.py`: by default the one of its name."""
    return line.folder or functions / line.name
