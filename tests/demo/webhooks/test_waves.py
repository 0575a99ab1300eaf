"""Simulated days: stored records become older, in the index of the captures as well."""

from demo.scenarios.webhooks.waves import update
from once.webhooks.capture import day_part

RECEIVED = 1_800_000_000_000
SHA = "0" * 64


def test_a_record_is_older_by_the_hours_in_each_unit() -> None:
    item = {"pk": {"S": "k"}, "committed_at": {"N": str(RECEIVED)}, "expires_at": {"N": "99999"}}
    found = update(item, 2)
    assert found["ExpressionAttributeValues"] == {
        ":committed_at": {"N": str(RECEIVED - 7_200_000)},
        ":expires_at": {"N": "92799"},
    }
    assert (
        found["UpdateExpression"] == "SET #committed_at = :committed_at, #expires_at = :expires_at"
    )


def test_a_capture_is_listed_under_its_earlier_day() -> None:
    day = {"S": day_part("stripe", RECEIVED, SHA)}
    found = update({"received_at": {"N": str(RECEIVED)}, "day": day}, 48)
    earlier = RECEIVED - 48 * 3_600_000
    values = found["ExpressionAttributeValues"]
    assert values[":day"] == {"S": day_part("stripe", earlier, SHA)} != day
