"""Fault assignment: chooses the fault of each execution, and counts the faults."""

import math
import threading
from collections import Counter, deque

from demo.payment_sandbox.faults import FaultRates, PaymentFault


class FaultAssignment:
    """Assigns the faults of a script first, then random ones. Thread-safe.

    Attributes:
        faults: rates of random faults; may be replaced at any time.
    """

    def __init__(self, faults: FaultRates) -> None:
        self.faults = faults
        self._lock = threading.Lock()
        self._script: deque[PaymentFault | None] = deque()
        self._executions: Counter[str] = Counter()
        self._fired: Counter[PaymentFault] = Counter()

    @property
    def fired(self) -> Counter[PaymentFault]:
        """Number of assigned faults by kind."""
        with self._lock:
            return self._fired.copy()

    def script(self, *faults: PaymentFault | None) -> None:
        """Assign these faults to the next executions, in order; None is no fault."""
        with self._lock:
            self._script.extend(faults)

    def assign(self, idempotency_key: str | None) -> PaymentFault | None:
        """Return the fault of the next execution under this key; None is no fault."""
        key = idempotency_key or ""
        with self._lock:
            self._executions[key] += 1
            fault = self._script.popleft() if self._script else self._by_chance(key)
            if fault is not None:
                self._fired[fault] += 1
            return fault

    def _by_chance(self, key: str) -> PaymentFault | None:
        faults = self.faults
        fault = faults.draw(key, self._executions[key])
        if fault is None or self._fired[fault] >= faults.limits.get(fault, math.inf):
            return None
        return fault
