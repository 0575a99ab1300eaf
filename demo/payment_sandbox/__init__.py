"""The payment sandbox: a provider like Stripe on this machine, with faults to order."""

from demo.payment_sandbox.faults import FaultRates, PaymentFault
from demo.payment_sandbox.server import PaymentSandbox, payment_sandbox

__all__ = ["FaultRates", "PaymentFault", "PaymentSandbox", "payment_sandbox"]
