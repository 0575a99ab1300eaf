"""Endpoint of this folder's embedded AWS, for a command of `once` without its variables.

Each command asks for it: what finds the process is imported only if there is one.
"""

from collections.abc import Mapping

from emulator.local import HOME, STATE


def environment_here() -> Mapping[str, str] | None:
    """Return the variables of the embedded AWS that runs for the working directory, if one does."""
    if not (HOME / STATE).exists():
        return None
    from emulator.local.background import background
    from once.ops.errors import OpsError

    try:
        return background().connection().environment()
    except OpsError:  # it has ended
        return None
