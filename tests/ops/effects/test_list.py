"""The command `effects list`: pending effects, the oldest first."""

import json
from typing import Any

from tests.ops.cloud import Cloud
from tests.ops.outboxes import commit
from tests.ops.output import stdout_of

PENDING: dict[str, Any] = {
    "state": {"S": "pending"},
    "effect": {"S": "charge"},
    "standing": {"S": "unknown"},
    "provider_key": {"S": "k-1"},
    "lease_until": {"N": "1790000000000"},
}


def test_pending_effects_are_listed_oldest_first(cloud: Cloud) -> None:
    commit(cloud, "orders#young", age=1, **PENDING)
    commit(cloud, "orders#old", age=9, **PENDING)
    commit(cloud, "orders#done", state={"S": "done"})
    found = json.loads(stdout_of("effects", "list", "--json"))
    assert [one["key"] for one in found["effects"]] == ["orders#old", "orders#young"]
    assert (found["read"], found["left"]) == (3, 0)
    assert found["effects"][0]["provider_key"] == "k-1"
    text = stdout_of("effects", "list", "--most", 1)
    assert "more were not: a pending effect may be among them" in text


def test_a_record_that_cannot_be_read_is_listed(cloud: Cloud) -> None:
    odd = {"state": {"S": "pending"}, "effect": {"N": "1"}, "lease_until": {"S": "\u202e"}}
    cloud.dynamodb.put_item(TableName="physical-dedup", Item={"pk": {"S": "\x1b[31m"}, **odd})
    assert "\x1b" not in stdout_of("effects", "list")
    [one] = json.loads(stdout_of("effects", "list", "--json"))["effects"]
    assert (one["effect"], one["lease_until"]) == ("not-readable", None)
