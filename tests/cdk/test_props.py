"""Properties of consumers and tables."""

import pytest

from once.cdk.props import ConsumerProps, TableProps, event_sources, output_key


@pytest.mark.parametrize(
    ("key", "keys"), [("sku", ("sku",)), (("order_id", "line"), ("order_id", "line"))]
)
def test_a_key_is_one_word_or_a_pair(key: str | tuple[str, ...], keys: tuple[str, ...]) -> None:
    assert TableProps("stock", key).keys == keys


def test_visibility_follows_from_timeout_and_window() -> None:
    line = ConsumerProps("refunds", external=("x",), timeout_seconds=10, batch_window_seconds=5)
    assert line.visibility == 65


def test_output_keys_are_words() -> None:
    assert output_key("outbox_relay") == "OutboxRelay"


def test_sources_of_an_internal_event_are_all_its_publishers() -> None:
    line = ConsumerProps("mail", external=("asked",), events=("paid",))
    others = [
        ConsumerProps(name, external=("x",), publishes=("paid",)) for name in ("card", "bank")
    ]
    assert event_sources(line, [line, *others]) == {"paid": ("/once/card", "/once/bank")}
