"""Checks of one line, each seen failing once with its remedy, and silent where all is well."""

from dataclasses import replace
from typing import Any

import pytest

from once.cdk.checks.consumer_props import MARGIN_SECONDS, consumer_props_faults
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.props import ConsumerProps, TableProps
from once.schema import RELAY, UNROUTED
from once.settings import Settings

GOOD = ConsumerProps(
    "refunds", external=("order.refunded",), tables=(TableProps("refunds", "order_id"),)
)
CONFIG = DeploymentConfig(parameters={"payment_api": "https://example.com"})


def faults(**change: Any) -> list[str]:
    return list(consumer_props_faults(replace(GOOD, **change), CONFIG))


def test_a_sound_line_has_no_fault() -> None:
    assert faults() == []


@pytest.mark.parametrize(
    ("change", "culprit", "remedy"),
    [
        ({"external": ()}, "it takes no event", "give external= the types"),
        ({"external": "order.placed"}, "external='order.placed'", "give a tuple of types"),
        ({"events": ("order.refunded",)}, "'order.refunded' is in external and", "leave it in"),
        ({"events": "order.placed"}, "events='order.placed'", "give a tuple of types"),
        ({"events": ("a,b",)}, "'a,b'", "without commas"),
        ({"events": (" ",)}, "' '", "give one without commas"),
        ({"tables": (TableProps("Refunds", "id"),)}, "'Refunds'", "use lower-case letters"),
        ({"tables": (TableProps("refunds", ()),)}, "key ()", "name the partition key"),
        (
            {"tables": (TableProps("refunds", ("a", "b", "c")),)},
            "('a', 'b', 'c')",
            "give a pair of",
        ),
        ({"tables": (TableProps("refunds", ("a", "a")),)}, "('a', 'a')", "give a pair of"),
        ({"timeout_seconds": 5}, "timeout_seconds=5", "choose 6 to 900"),
        ({"timeout_seconds": 901}, "timeout_seconds=901", "choose 6 to 900"),
        ({"publishes": "stock.sent"}, "publishes='stock.sent'", "give a tuple of types"),
        ({"publishes": ("a,b",)}, "publishes has 'a,b'", "without commas"),
        (
            {"events": ("order.checked",), "publishes": ("order.checked",)},
            "'order.checked' into its own queue",
            "take the type",
        ),
        ({"secrets": "stripe_key"}, "secrets='stripe_key'", "give a tuple of names"),
        ({"secrets": ("Stripe-Key",)}, "'Stripe-Key'", "use at most 40 lower-case letters"),
        ({"parameters": "bank"}, "parameters='bank'", "give a tuple of names"),
        ({"parameters": ("Bank",)}, "'Bank'", "use at most 40 lower-case letters"),
        ({"parameters": ("bank",)}, "'bank' has no value", "with -c bank=…"),
        ({"parameters": ("once_bank",)}, "'once_bank' would hide", "begin it with none of once_"),
        ({"parameters": ("aws_bank",)}, "'aws_bank' would hide", "begin it with none of"),
        ({"parameters": ("secret_bank",)}, "'secret_bank' would hide", "begin it with none of"),
        ({"parameters": ("powertools_x",)}, "'powertools_x' would hide", "begin it with none of"),
        ({"effect_timeout_seconds": -1}, "effect_timeout_seconds=-1", "or 0 if it makes no calls"),
        (
            {"effect_timeout_seconds": 3},
            "timeout_seconds=30 does not hold batch_size=10 calls of effect_timeout_seconds=3",
            "raise it to 36, or lower batch_size",
        ),
        (
            {"effect_timeout_seconds": 25, "batch_size": 1},
            "timeout_seconds=30 does not hold",
            "raise it to 31",
        ),
        ({"visibility_seconds": 179}, "visibility_seconds=179", "= 180, or leave it out"),
        (
            {"visibility_seconds": 180, "batch_window_seconds": 5},
            "visibility_seconds=180",
            "6 × timeout + batch window = 185",
        ),
        ({"visibility_seconds": 43_201}, "43201 s", "lower visibility_seconds"),
        ({"batch_size": 0}, "batch_size=0", "choose 1 to 10000"),
        ({"batch_size": 10_001, "batch_window_seconds": 1}, "batch_size=10001", "choose 1 to"),
        ({"batch_size": 11}, "batch_size=11", "set batch_window_seconds to 1 or more"),
        ({"batch_window_seconds": 301}, "batch_window_seconds=301", "choose 0 to 300"),
        ({"max_concurrency": 1}, "max_concurrency=1", "choose 2 to 1000"),
        ({"max_concurrency": 1001}, "max_concurrency=1001", "choose 2 to 1000"),
        ({"max_receive_count": 4}, "max_receive_count=4", "raise it to 5"),
        ({"group_size": 0}, "group_size=0", "choose 1, where each message commits alone, to 100"),
        ({"group_size": 101}, "group_size=101", "choose 1"),
        ({"commit_threads": 0}, "commit_threads=0", "choose 1 to 10"),
        ({"commit_threads": 11}, "commit_threads=11", "choose 1 to 10"),
        ({"memory_mb": 127}, "memory_mb=127", "choose 128 to 10240"),
    ],
    ids=str,
)
def test_fault_names_culprit_and_remedy(change: dict[str, Any], culprit: str, remedy: str) -> None:
    (fault,) = faults(**change)
    assert culprit in fault
    assert remedy in fault


@pytest.mark.parametrize(
    "change",
    [
        {"external": (), "events": ("stock.sent",)},
        {"timeout_seconds": 6},
        {"group_size": 1, "commit_threads": 1},
        {"group_size": 100, "commit_threads": 10},
        {"timeout_seconds": 900},
        {"effect_timeout_seconds": 3, "timeout_seconds": 36},
        {"effect_timeout_seconds": 24, "batch_size": 1},
        {"publishes": ("stock.sent",)},
        {"secrets": ("stripe_key",)},
        {"parameters": ("payment_api",)},
        {"visibility_seconds": 180},
        {"visibility_seconds": 43_200},
        {"batch_size": 10},
        {"batch_size": 10_000, "batch_window_seconds": 1},
        {"batch_window_seconds": 300},
        {"max_concurrency": 2},
        {"max_concurrency": 1000},
        {"max_receive_count": 5},
        {"tables": (TableProps("refunds", ("order_id", "line")),)},
    ],
    ids=str,
)
def test_limits_themselves_are_allowed(change: dict[str, Any]) -> None:
    assert faults(**change) == []


@pytest.mark.parametrize("name", ["", "Refunds", "re-funds", "2refunds", "r" * 41])
def test_a_name_that_cannot_be_a_consumers_is_refused(name: str) -> None:
    (fault,) = faults(name=name)
    assert f"the name {name!r}" in fault
    assert "use at most 40 lower-case letters" in fault


def test_no_consumer_has_the_name_of_the_relay() -> None:
    (fault,) = faults(name=RELAY)
    assert fault == "the name is that of the outbox relay, which is no consumer; choose another"


def test_no_consumer_has_the_name_of_the_unrouted_queue() -> None:
    (fault,) = faults(name=UNROUTED)
    assert fault == "the name is that of the queue of unrouted events; choose another"


def test_the_margin_is_the_one_that_the_function_keeps() -> None:
    defaults = {name: field.default for name, field in Settings.__dataclass_fields__.items()}
    assert defaults["time_margin_ms"] == MARGIN_SECONDS * 1000
