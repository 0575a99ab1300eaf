"""Folders of the example shop."""

from pathlib import Path

from once.cdk import ConsumerProps

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = ROOT / "functions"


def handler_folder(consumer: ConsumerProps, functions: Path = FUNCTIONS) -> Path:
    """Return the folder of a consumer's `handler.py`: by default the one of its name."""
    return consumer.folder or functions / consumer.name
