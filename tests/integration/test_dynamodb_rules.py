"""DynamoDB's rules: the embedded AWS agrees with FakeAws, except where the page says so."""

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from emulator.embedded_aws import EmbeddedAws
from once.commit.committer import Committer
from once.commit.result import CommitOutcome
from once.dynamodb_rules import serialize
from once.errors import ConditionFailed, InvalidWrite
from once.runtime.sdk import SDK
from once.settings import TableSettings
from once.transaction import Identity, Transaction
from tests.once.dynamodb_cases import ACCEPTED, CONDITIONS, INVALID, ITEM, OTHERWISE_EMBEDDED, Write
from tests.once.support import PUBLISHING, event_of

Commit = Callable[[Write], Any]


@pytest.fixture(scope="module")
def commit(aws: EmbeddedAws) -> Commit:
    """Commit a write to a table that holds the item; returns the result."""
    client, name = aws.client("dynamodb", config=SDK), f"rules-{uuid4().hex[:8]}"
    tables = {"counters": TableSettings(f"{name}-counters", ("name",))}
    settings = replace(PUBLISHING, dedup_table=f"{name}-dedup", tables=tables)
    for table, key in ((settings.dedup_table, "pk"), (f"{name}-counters", "name")):
        client.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    committer = Committer(client, settings, time.time)

    def commit(write: Write) -> Any:
        client.put_item(TableName=f"{name}-counters", Item=serialize(ITEM))
        identity = Identity(f"notes#{uuid4()}", "f")
        tx = Transaction(event_of(), identity, settings, read=lambda table, key: None)
        write(tx)
        [result] = committer.commit([committer.request(tx, time.time())])
        return result

    return commit


@pytest.mark.parametrize("write", ACCEPTED.values(), ids=ACCEPTED)
def test_a_write_at_a_limit_is_accepted(commit: Commit, write: Write) -> None:
    assert commit(write).outcome is CommitOutcome.COMMITTED


@pytest.mark.parametrize("name", [*CONDITIONS, *INVALID])
def test_it_differs_only_where_the_page_says_so(commit: Commit, name: str) -> None:
    # A difference that is gone fails too: take it out of the list and of the page.
    write, holds = CONDITIONS.get(name) or (INVALID[name], False)
    expected = InvalidWrite if name in INVALID else ConditionFailed
    cause = commit(write).cause
    assert ((cause is None) if holds else isinstance(cause, expected)) is (
        name not in OTHERWISE_EMBEDDED
    )
