"""Registry and folders say the same: one line and one folder make a consumer."""

import pytest

from once.cdk.checks.registry import faults_of
from once.cdk.config import Config
from once.cdk.props import FUNCTIONS, Consumer, Table, sources_of, words
from once.schema import RELAY, UNROUTED
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import CONTEXT


def test_folder_exists_where_a_line_exists_and_only_there() -> None:
    # A fault says which line or which folder to add.
    assert faults_of(CONSUMERS, Config(parameters=CONTEXT)) == []
    folders = {path.parent.name for path in FUNCTIONS.glob("*/handler.py")}
    assert folders == {line.name for line in CONSUMERS} | {RELAY, UNROUTED}


@pytest.mark.parametrize(
    ("key", "keys"), [("sku", ("sku",)), (("order_id", "line"), ("order_id", "line"))]
)
def test_a_key_is_one_word_or_a_pair(key: str | tuple[str, ...], keys: tuple[str, ...]) -> None:
    assert Table("stock", key).keys == keys


def test_visibility_follows_from_timeout_and_window() -> None:
    line = Consumer("refunds", external=("x",), timeout_seconds=10, batch_window_seconds=5)
    assert line.visibility == 65


def test_output_keys_are_words() -> None:
    assert words("outbox_relay") == "OutboxRelay"


def test_sources_of_an_internal_event_are_all_its_publishers() -> None:
    line = Consumer("mail", external=("asked",), events=("paid",))
    others = [Consumer(name, external=("x",), publishes=("paid",)) for name in ("card", "bank")]
    assert sources_of(line, [line, *others]) == {"paid": ("/once/card", "/once/bank")}
