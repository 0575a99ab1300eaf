"""Requests: invocations of the ingress over HTTP, each as a task of its own process."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from proof.shop.invocations import Invocations
from proof.shop.ledger import Violation
from proof.shop.service import Context
from proof.webhooks import receiver
from proof.webhooks.service import WebhookService
from proof.webhooks.webhook import Delivery
from proof.world.plan import PlatformFault
from proof.world.tasks import Killed, Process

Answered = Callable[[int | None], None]
"""Called with the status; None if the sender gets no answer."""
_TOO_MANY = 429
_PATIENCE = {each.name: each.profile.answer_seconds for each in receiver.ENDPOINTS}
"""The time for which a sender waits for an answer, in seconds."""


class AnswerOracles(Protocol):
    """Checks of answers. Each method raises Violation."""

    def check_answer(self, delivery: Delivery, status: int, began: float) -> None:
        """Check the answer to a request that began at a time."""


class Requests:
    """Sends requests to the ingress.

    Args:
        service: the service.
        ledger: checks each answer.
        invocations: keeps the first error.
    """

    def __init__(
        self, service: WebhookService, ledger: AnswerOracles, invocations: Invocations
    ) -> None:
        self._service = service
        self._world = service.world
        self._ledger = ledger
        self._invocations = invocations
        self._number = 0

    def send(self, delivery: Delivery, answered: Answered) -> None:
        """Send a request."""
        function = self._service.ingress
        if self._world.plan.platform(PlatformFault.THROTTLED, function.name):
            answered(_TOO_MANY)
            return
        self._number += 1
        end = self._world.tasks.now + function.seconds
        process = Process(f"{function.name}-{self._number}", end)
        self._world.tasks.start(process, partial(self._run, process, delivery, answered))

    def _run(self, process: Process, delivery: Delivery, answered: Answered) -> None:
        began, status = self._world.tasks.now, None
        handle = self._service.ingress.take()
        try:
            context = Context(process, self._world.tasks.clock)
            status = handle(delivery.event(), context)["statusCode"]
            self._ledger.check_answer(delivery, status, began)
            if self._is_unheard(delivery, began):
                status = None
        except Killed:
            raise
        except Violation as violation:
            self._invocations.error = violation
        except Exception as error:  # Lambda would answer with 502
            self._invocations.error = Violation("raised", f"{process.name}: {error!r}")
        finally:
            if not process.dead:
                self._service.ingress.idle.append(handle)
            answered(status)

    def _is_unheard(self, delivery: Delivery, began: float) -> bool:
        """Tell whether the sender has given up waiting, or the answer is lost on its way."""
        if self._world.tasks.now - began > _PATIENCE[delivery.endpoint]:
            return True
        lost = self._world.plan.platform(PlatformFault.UNANSWERED, self._service.ingress.name)
        return lost is not None
