"""Two deployed consumers keep their dedup records on the items of one table."""

from once.testing import cloud_event
from tests.e2e.deployment import Deployment, attribute
from tests.e2e.test_trace import trace

CONSUMERS = {"balances": "account.credited", "holders": "account.renamed"}


def test_each_consumer_changes_an_account_once(service: Deployment) -> None:
    events = [
        cloud_event(kind, {"account": f"account-{n}"})
        for kind in CONSUMERS.values()
        for n in range(5)
    ]
    service.publish(*events, *events)
    service.wait_until_swept()
    service.wait_until_empty(*CONSUMERS)
    for number in range(5):
        found = service.get("accounts", account=f"account-{number}")
        assert (found["credited"], found["renamed"]) == ("1", "1")
    for consumer, kind in CONSUMERS.items():
        service.send(consumer, cloud_event(kind, {"account": "account-0", "amount": 2}))
        [letter] = service.dead_letters(consumer, 1)
        assert attribute(letter, "once-reason") == "key-conflict"
    moments = trace(service, "account-0", "--no-logs")["moments"]
    assert {(m["consumer"], m["what"]) for m in moments} == {
        (consumer, "committed") for consumer in CONSUMERS
    }
