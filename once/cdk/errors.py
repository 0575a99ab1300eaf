"""What ends a synthesis with a text for people instead of a trace."""

from collections.abc import Sequence


class SynthError(Exception):
    """The app cannot be synthesized.

    Args:
        heading: what was being done.
        faults: one sentence each, naming the culprit and the remedy.
    """

    def __init__(self, heading: str, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join([f"{heading}:", *(f"  - {fault}" for fault in faults)]))
