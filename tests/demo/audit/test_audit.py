from dataclasses import replace
from typing import Any

import pytest

from demo.audit import Findings
from demo.audit.evidence import UnreadMessagesError
from tests.demo.audit.sample import CLEAN, changes
from tests.demo.audit.world import World

FAULTS = {
    "lost",
    "doubled",
    "double_charges",
    "unfinished",
    "balance_error",
    "stock_balance_error",
    "unexplained_dead_letters",
}


def test_a_run_without_faults_is_clean_and_its_audit_changes_nothing(world: World) -> None:
    findings = world.audit()
    assert findings == world.audit() == CLEAN
    assert findings.clean
    assert findings.quarantined == 4


def test_a_run_without_effects_is_not_clean() -> None:
    assert not Findings(sent=0, distinct=0).clean


@pytest.mark.parametrize("name", sorted(vars(CLEAN).keys() - {"quarantined_by_reason", "samples"}))
def test_only_fault_figures_make_findings_unclean(name: str) -> None:
    figure: Any = {name: 100}
    assert replace(CLEAN, **figure).clean is (name not in FAULTS)


def test_deliveries_are_counted_from_the_log_lines_of_functions(world: World) -> None:
    world.log(
        "orders",
        'INFO {"message": "batch", "fates": {"committed": 3, "duplicate": 2}}',
        '{"fates": {"quarantined": 1}}',
        '{"message": "something else"}',
        "START {RequestId}",
        "{[1]}",
        "no JSON",
    )
    world.log("payments", '{"fates": {"committed": 10}}')
    assert changes(world.audit()) == {"deliveries": 16}


def test_all_pages_of_a_table_are_read(world: World) -> None:
    for number in range(4):
        world.put("orders", order_id=f"other-{number}", note="x" * 390_000)
    assert changes(world.audit()) == {"orders_stored": 4}


def fifo(world: World, *groups: str) -> str:
    """A FIFO queue with a message of each of these groups, in this order."""
    url = str(
        world.sqs.create_queue(QueueName="x.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    )
    for number, group in enumerate(groups):
        world.sqs.send_message(
            QueueUrl=url,
            MessageBody=str(number),
            MessageGroupId=group,
            MessageDeduplicationId=str(number),
        )
    return url


def test_all_messages_of_a_message_group_are_read(world: World) -> None:
    # SQS withholds the later messages of a group while its first ones are in flight.
    groups = [name for n in range(10) for name in ("many", f"a-{n}", f"b-{n}")]
    url, evidence = fifo(world, *groups), world.place()
    for _ in range(2):  # all are visible again
        assert {int(each["Body"]) for each in evidence.messages(url)} == {*range(30)}


def test_messages_that_cannot_be_read_are_an_error_that_names_the_cause(world: World) -> None:
    url = fifo(world, *["many"] * 12, "other")
    with pytest.raises(UnreadMessagesError, match=r"^2 messages .* beside the other 11: "):
        world.place().messages(url)
    world.sqs.delete_queue(QueueUrl=url)
    assert len(world.place().messages(fifo(world, *"abc"))) == 3
