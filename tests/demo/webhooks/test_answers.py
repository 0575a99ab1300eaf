"""The evidence: answers of a run, told to the audit."""

from demo.scenarios.webhooks.deliveries import (
    Altered,
    Delivery,
    Forged,
    Genuine,
    Handshake,
    Provider,
    SampleWebhook,
    Trick,
)
from demo.scenarios.webhooks.scenario import forged_requests, run_figures, sent_webhooks
from demo.scenarios.webhooks.waves import Answered

WEBHOOK = SampleWebhook.sample(Provider.STRIPE, "w-1", 7)
OTHER = SampleWebhook.sample(Provider.GITHUB, "w-2", 8)
FORGED = Forged(WEBHOOK, Trick.CHANGED_BODY)


def answered(delivery: Delivery, status: int, body: bytes = b"", text: str = "") -> Answered:
    return Answered(delivery, body, status, text, seconds=0.01)


def test_a_webhook_is_accepted_if_one_of_its_attempts_was() -> None:
    answers = [
        answered(Genuine(WEBHOOK), 502, b"first"),
        answered(Genuine(WEBHOOK, 1), 200, b"second"),
        answered(Genuine(OTHER), 401, b"third"),
    ]
    found = sent_webhooks([WEBHOOK, OTHER], answers)
    assert (found["w-1"].accepted, found["w-2"].accepted) == (True, False)
    assert found["w-1"].bodies == [b"first", b"second"]
    assert [data["pending_webhooks"] for data in found["w-1"].data] == [3, 2]


def test_a_copy_of_another_type_belongs_to_its_webhook() -> None:
    copies = [Altered(OTHER, "issues"), Altered(OTHER), Altered(WEBHOOK)]
    found = sent_webhooks([WEBHOOK, OTHER], [answered(copy, 200) for copy in copies])
    assert (found["w-2"].other_types, found["w-2"].may_conflict) == (["issues"], True)
    assert (found["w-1"].other_types, found["w-1"].may_conflict) == ([], False)


def test_a_forged_request_counts_once_with_its_last_answer() -> None:
    died, refused = answered(FORGED, 502), answered(FORGED, 401)
    assert [each.refused for each in forged_requests([died, refused])] == [True]
    assert [each.refused for each in forged_requests([answered(FORGED, 200)])] == [False]
    assert [each.refused for each in forged_requests([died])] == [False]


def test_the_figures_of_a_run() -> None:
    shaken = Handshake("c")
    answers = [
        answered(Genuine(WEBHOOK), 502),
        answered(Genuine(WEBHOOK), 401),
        answered(Genuine(WEBHOOK), 200),
        answered(shaken, 200, text="wrong"),
        answered(shaken, 200, text="c"),
    ]
    assert run_figures(answers) == {
        "sent": 5,
        "killed_requests": 1,
        "refused_in_rotation": 1,
        "handshakes": 1,
        "p50_ms": 10.0,
        "p99_ms": 10.0,
    }
