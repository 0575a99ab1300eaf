"""The SDK and moto made fast, as the conformance kit does it; without the kit tests take longer."""

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec

_KIT = import_module("redelivery.world.world") if find_spec("redelivery") else None


def accelerated() -> AbstractContextManager[None]:
    """Keep models, endpoint rules and names of operations for all clients of this process."""
    return _KIT.accelerated() if _KIT else nullcontext()
