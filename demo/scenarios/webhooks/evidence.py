"""Evidence for the audit: what was sent and answered, in the audit's own terms; and latencies."""

from collections.abc import Iterable, Mapping, Sequence

from demo.audit.webhooks import ForgedRequest, SentWebhook
from demo.scenarios.webhooks.deliveries import Altered, Forged, Genuine, Handshake
from demo.scenarios.webhooks.sample_webhook import TYPES, Provider, SampleWebhook
from demo.scenarios.webhooks.sender import Answered

_REFUSED = 401
_DIED = (0, 500, 502)
"""The answers of the embedded AWS for a function whose process ended."""


def sent_webhooks(
    webhooks: Sequence[SampleWebhook], answers: Iterable[Answered]
) -> dict[str, SentWebhook]:
    """Return what was sent of each genuine webhook, by its serial."""
    attempts: dict[str, list[Answered]] = {each.serial: [] for each in webhooks}
    types: dict[str, set[str]] = {each.serial: set() for each in webhooks}
    for answered in answers:
        if isinstance(answered.delivery, Genuine):
            attempts[answered.delivery.webhook.serial].append(answered)
        elif isinstance(answered.delivery, Altered) and answered.delivery.type:
            types[answered.delivery.webhook.serial].add(answered.delivery.type)
    return {
        each.serial: _sent(each, attempts[each.serial], types[each.serial]) for each in webhooks
    }


def _sent(webhook: SampleWebhook, attempts: Sequence[Answered], types: set[str]) -> SentWebhook:
    genuine = [each.delivery for each in attempts if isinstance(each.delivery, Genuine)]
    return SentWebhook(
        endpoint=webhook.provider,
        type=TYPES[webhook.provider],
        event_type=_event_type(webhook.provider),
        bodies=[each.body for each in attempts],
        data=[each.sent.data for each in genuine],
        amount=webhook.data["amount"],
        accepted=any(each.is_settled for each in attempts),
        other_types=sorted(types),
        may_conflict=webhook.provider is Provider.GITHUB,
    )


def forged_requests(answers: Iterable[Answered]) -> list[ForgedRequest]:
    """Return the forged requests, each once, with its last answer."""
    last = {id(each.delivery): each for each in answers}
    return [
        _forged(each.delivery, each) for each in last.values() if isinstance(each.delivery, Forged)
    ]


def _forged(delivery: Forged, answered: Answered) -> ForgedRequest:
    return ForgedRequest(
        endpoint=delivery.webhook.provider,
        event_type=_event_type(delivery.webhook.provider),
        serial=delivery.webhook.serial,
        body=answered.body,
        data=delivery.sent.data,
        refused=answered.status == _REFUSED,
    )


def run_figures(answers: Sequence[Answered]) -> Mapping[str, float]:
    """Return the figures of the run itself, by their key in the report."""
    genuine = [each for each in answers if isinstance(each.delivery, Genuine)]
    seconds = sorted(each.seconds for each in genuine if each.is_settled)
    handshakes = [each for each in answers if isinstance(each.delivery, Handshake)]
    return {
        "sent": len(answers),
        "killed_requests": sum(each.status in _DIED for each in answers),
        "refused_in_rotation": sum(each.status == _REFUSED for each in genuine),
        "handshakes": sum(each.is_settled for each in handshakes),
        "p50_ms": _percentile(seconds, 0.50),
        "p99_ms": _percentile(seconds, 0.99),
    }


def _percentile(seconds: Sequence[float], share: float) -> float:
    return round(seconds[int(len(seconds) * share)] * 1000, 1) if seconds else 0.0


def _event_type(provider: Provider) -> str:
    return f"{provider}.{TYPES[provider]}"
