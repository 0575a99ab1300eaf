"""DynamoDB's rules: the library refuses what it can check, and FakeAws answers as AWS documents."""

from typing import Any

import pytest

from once.commit.result import CommitOutcome
from once.errors import ConditionFailed, InvalidWrite
from tests.once.dynamodb_cases import ACCEPTED, CONDITIONS, INVALID, ITEM, REFUSED, Write
from tests.once.support import COUNTERS, Bench, calls


def committed(bench: Bench, write: Write) -> Any:
    """Return the result of a write to a table that holds the item."""
    bench.aws.given(COUNTERS, ITEM)
    tx = bench.transaction()
    write(tx)
    [result] = bench.commit(tx)
    return result


@pytest.mark.parametrize("write", ACCEPTED.values(), ids=ACCEPTED)
def test_a_write_at_a_limit_is_accepted(bench: Bench, write: Write) -> None:
    assert committed(bench, write).outcome is CommitOutcome.COMMITTED


@pytest.mark.parametrize(("write", "holds"), CONDITIONS.values(), ids=CONDITIONS)
def test_a_condition_is_evaluated_by_types(bench: Bench, write: Write, *, holds: bool) -> None:
    result = committed(bench, write)
    assert (result.outcome is CommitOutcome.COMMITTED) is holds
    assert holds or isinstance(result.cause, ConditionFailed)


@pytest.mark.parametrize(("write", "text"), REFUSED.values(), ids=REFUSED)
def test_a_write_over_a_rule_is_refused_with_table_place_and_remedy_and_no_value(
    bench: Bench, write: Write, text: str
) -> None:
    with calls(bench.client) as made, pytest.raises(InvalidWrite, match=text) as raised:
        raise committed(bench, write).cause
    assert [operation for operation, _ in made if operation != "PutItem"] == []
    assert "counters" in str(raised.value)
    assert "SECRET" not in str(raised.value)
    assert ("money" in str(raised.value)) is ("float" in str(raised.value))


@pytest.mark.parametrize("write", INVALID.values(), ids=INVALID)
def test_a_write_that_dynamodb_refuses_is_refused_by_fake_aws(bench: Bench, write: Write) -> None:
    result = committed(bench, write)
    assert isinstance(result.cause, InvalidWrite)
    assert "DynamoDB refuses" in str(result.cause)
    [item] = bench.aws.items("counters")
    assert item == ITEM
