"""The payment sandbox: a provider like Stripe on this machine, with faults to order."""

from local.payments.faults import Fault, Faults
from local.payments.server import PaymentSandbox, payment_sandbox

__all__ = ["Fault", "Faults", "PaymentSandbox", "payment_sandbox"]
