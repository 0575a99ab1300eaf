"""The world of one run: a simulated AWS, a clock, the source queue, the function's processes.

In: a `Subject`. Out: invocations of its handler, and the state that they leave.
"""

import importlib
import sys
from typing import Any, cast

# time-machine imports pytest for a fixture, if it can. That takes half as long as moto.
if "pytest" not in sys.modules:
    sys.modules["pytest"] = cast(Any, None)
    importlib.import_module("time_machine")
    del sys.modules["pytest"]
