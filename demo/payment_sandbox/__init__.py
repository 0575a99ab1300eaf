"""Payment sandbox: a local HTTP server with part of Stripe's API, which can inject faults.

In: charge requests over HTTP, and fault rates or a script of faults. Out: responses, and a book of
all charges. Used by the scenarios, `process_kills`, and the proofs.
"""

from demo.payment_sandbox.faults import FaultRates, PaymentFault
from demo.payment_sandbox.server import PaymentSandbox, payment_sandbox

__all__ = ["FaultRates", "PaymentFault", "PaymentSandbox", "payment_sandbox"]
