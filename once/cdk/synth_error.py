"""The error that ends a synthesis with a readable text."""

from collections.abc import Sequence


class SynthError(Exception):
    """The app cannot be synthesized.

    Args:
        heading: the thing that cannot be made.
        faults: one sentence each, with the mistake and its remedy.

    Remedy: correct each fault as its text says, and synthesize again.
    """

    def __init__(self, heading: str, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join([f"{heading}:", *(f"  - {fault}" for fault in faults)]))
