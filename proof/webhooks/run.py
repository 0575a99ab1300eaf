"""One run of the webhook ingress: webhooks, attacks, injected faults, and then rest."""

from collections.abc import Sequence

from proof.shop.invocations import Invocations
from proof.shop.operator import Operator
from proof.shop.run import Run
from proof.shop.service import DEDUP_WINDOW_SECONDS
from proof.traffic import Story
from proof.webhooks.ledger import WebhookLedger
from proof.webhooks.providers import Providers
from proof.webhooks.requests import Requests
from proof.webhooks.service import WebhookService
from proof.webhooks.webhook import webhooks_of
from proof.world.plan import Plan
from proof.world.tasks import START

_HORIZON_SECONDS = 3 * 24 * 60 * 60
"""The longest time after which the providers here send a webhook again."""
_LATEST_SECONDS = 120
"""The time within which calls that are executed late have been."""
_AT_THE_END = 2 * 60 * 60
"""Before the end of the dedup window, later than any replay here."""


class WebhookRun(Run):
    """A run of the ingress. After the faults, the providers send again what was not answered."""

    _ledger: WebhookLedger

    def __init__(self, plan: Plan, stories: Sequence[Story], seed: int) -> None:
        service = WebhookService(plan, seed)
        cast = [(story, webhooks_of(n, story)) for n, story in enumerate(stories, start=1)]
        ledger = WebhookLedger(service, [webhook for _, each in cast for webhook in each])
        self._service = service
        self.world = service.world
        self._ledger = ledger
        self._plan = plan
        self._invocations = Invocations(service, ledger)
        self._operator = Operator(service)
        self._providers = Providers(self.world, cast, Requests(service, ledger, self._invocations))

    def _send(self) -> None:
        self._providers.begin()

    def _recover(self) -> None:
        self._ledger.quiet_from = self.world.tasks.now + _LATEST_SECONDS
        self._providers.resume()
        super()._recover()

    def _send_late_copies(self) -> None:
        """Send each webhook again at the provider's last time, and replay old ones after that."""
        self.world.tasks.now = max(self.world.tasks.now, START + _HORIZON_SECONDS)
        self._providers.repeat()
        self._to_rest()
        self._ledger.check_rest()
        self._providers.withdraw()
        self._to_rest()
        self.world.tasks.now = max(self.world.tasks.now, START + DEDUP_WINDOW_SECONDS - _AT_THE_END)
        self._providers.repeat()
