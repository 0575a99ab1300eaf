"""Messages that cannot be read, that end or hang the function, or write past the transaction."""

from collections import Counter
from typing import Any

from demo.quiescence import wait_until
from once.names import DeadLetterAttribute, Reason
from once.testing import cloud_event
from tests.e2e.deployment import REST_SECONDS, Deployment, attribute
from tests.e2e.mortality import ENDING, HEALTHY

GOOD = '"specversion": "1.0", "id": "e", "source": "/s", "type": "probe.asked"'
MIB = 1024 * 1024

BODIES = {
    " ": "unparseable",
    "order 12, please": "unparseable",
    "[1, 2]": "invalid-event",
    '{"specversion": "1.0", "source": "/s", "type": "probe.asked"}': "no-key",
    '{"specversion": "1.0", "id": null, "source": "/s", "type": "t"}': "no-key",
    "{" + GOOD + ', "data": {"counter": 7}}': "invalid-data",
    "{" + GOOD + ', "data": {"counter": "a", "counter": "b"}}': "unparseable",
    "{" + GOOD + ', "data": {"counter": NaN}}': "unparseable",
    "{" + GOOD + ', "data": {"counter": "\\ud800"}}': "unparseable",
    "[" * 10_000: "unparseable",
    "{" + GOOD.replace("probe.asked", "x") + "}": "unknown-type",
}


def counted(counter: str) -> Any:
    return cloud_event("probe.asked", {"counter": counter})


def amounts(service: Deployment, counters: list[str]) -> Counter[str | None]:
    return Counter(service.get("counters", id=counter).get("amount") for counter in counters)


def test_a_bad_body_is_quarantined_and_its_neighbours_commit(service: Deployment) -> None:
    neighbours = []
    for number, body in enumerate(BODIES):
        neighbours += [f"before {number}", f"after {number}"]
        service.send("probe", counted(neighbours[-2]), body, counted(neighbours[-1]))
    dead_letters = service.dead_letters("probe", len(BODIES))
    service.wait_until_empty("probe")
    assert {
        dead_letter["Body"]: attribute(dead_letter, "once-reason") for dead_letter in dead_letters
    } == BODIES
    assert {attribute(dead_letter, "once-receive-count") for dead_letter in dead_letters} == {"1"}
    assert amounts(service, neighbours) == {"1": 2 * len(BODIES)}


def test_a_body_as_large_as_sqs_takes_is_quarantined_whole(service: Deployment) -> None:
    service.send("probe", "x" * MIB)
    [dead_letter] = service.dead_letters("probe", 1)
    assert attribute(dead_letter, "once-reason") == "too-large"
    assert "once-original-gzip" in dead_letter["MessageAttributes"]
    service.send("probe", counted("after a large one"))
    service.wait_until_empty("probe")
    assert amounts(service, ["after a large one"]) == {"1": 1}


def test_a_handler_that_writes_past_the_transaction_is_denied_by_iam(service: Deployment) -> None:
    service.put("controls", id="direct", writes="yes")
    service.send("probe", counted("direct"))
    [dead_letter] = service.dead_letters("probe", 1)
    assert attribute(dead_letter, "once-reason") == "retries-exhausted"
    assert attribute(dead_letter, "once-receive-count") == "5"
    assert "AccessDenied" in attribute(dead_letter, "once-error")
    assert "PutItem" in attribute(dead_letter, "once-error")
    assert service.get("counters", id="direct") == {}


def test_messages_that_end_or_hang_the_function_do_not_harm_others(service: Deployment) -> None:
    dead_letters: list[Any] = []

    def have_ended() -> bool:
        while found := service.take("mortal"):
            dead_letters.extend(found)
        return {each for each, _ in reasons(dead_letters)} >= {*ENDING}

    wait_until("the failing messages are dead letters", have_ended, timeout=2 * REST_SECONDS)
    service.wait_until_empty("mortal")
    assert amounts(service, HEALTHY) == {"1": len(HEALTHY)}
    # One that was alone in its last receive was moved by SQS. A set: where an invocation outlasts
    # the visibility timeout, a message is moved twice.
    assert {name for name, _ in reasons(dead_letters)} == {*ENDING}
    assert {reason for _, reason in reasons(dead_letters)} <= {Reason.UNFINISHED, None}
    assert amounts(service, ENDING) == {None: len(ENDING)}


def reasons(dead_letters: list[Any]) -> set[tuple[str, str | None]]:
    names = [*ENDING, *HEALTHY]
    return {
        (
            name,
            attribute(dead_letter, DeadLetterAttribute.REASON)
            if DeadLetterAttribute.REASON in dead_letter.get("MessageAttributes", {})
            else None,
        )
        for dead_letter in dead_letters
        for name in names
        if f'"{name}"' in dead_letter["Body"]
    }
