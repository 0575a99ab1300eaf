"""Checks of each consumer, of all together and of a deployment: each fault states its remedy."""

import re
from dataclasses import fields, replace
from typing import Any, cast

import pytest
from msgspec import structs

from once.cdk.checks.consumer_props import MARGIN_SECONDS, consumer_props_faults
from once.cdk.checks.consumer_set import consumer_set_faults
from once.cdk.checks.deployment_config import deployment_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import ConsumerProps, Pollers, TableProps, WarmThroughput
from once.names import RELAY, UNROUTED
from once.settings import Settings

TABLE = TableProps("refunds", "order_id")
GOOD = ConsumerProps("refunds", external=("order.refunded",), tables=(TABLE,))
CONFIG = DeploymentConfig(parameters={"payment_api": "https://example.com"})
A_NAME = "use at most 40 lower-case letters"
WINDOW = {"batch_window_seconds": 1}
FIFO = {"fifo": True, "ordered_by": "order_id"}

MANY = tuple(f"t{number}" for number in range(151))
UNTYPED: Any = TableProps
WRONG_TABLES = [None, ("refunds",), (UNTYPED("refunds", (1,)),)]


def faults(**change: Any) -> list[str]:
    return list(consumer_props_faults(replace(GOOD, **change), CONFIG))


@pytest.mark.parametrize(
    ("name", "allowed", "refused", "remedy"),
    [
        ("timeout_seconds", [6, 900], [5, 901], "choose 6 to 900"),
        ("batch_size", [10], [0], "choose 1 to 10000"),
        ("batch_window_seconds", [300], [301], "choose 0 to 300"),
        ("max_concurrency", [2, 1000], [1, 1001], "choose 2 to 1000"),
        ("max_receive_count", [5], [4], "raise it to 5"),
        ("group_size", [1, 100], [0, 101], "choose 1 to 100: the most messages that commit in one"),
        ("commit_attempts", [1, 100], [0, 101], "choose 1 to 100"),
        ("commit_threads", [1, 10], [0, 11], "choose 1 to 10"),
        ("effect_concurrency", [1, 100], [0, 101], "choose 1 to 100"),
        ("memory_mb", [128, 10240], [127], "choose 128 to 10240"),
    ],
)
def test_a_number_has_limits(
    name: str, allowed: list[int], refused: list[int], remedy: str
) -> None:
    assert [faults(**{name: number}) for number in allowed] == [[]] * len(allowed)
    for number in refused:
        (fault,) = faults(**{name: number})
        assert f"{name}={number}" in fault
        assert remedy in fault


@pytest.mark.parametrize(
    ("change", "mistake", "remedy"),
    [
        ({"external": ()}, "it takes no event", "give external= the types"),
        ({"external": "order.placed"}, "external='order.placed'", "give a tuple of types"),
        ({"secrets": "stripe_key"}, "secrets='stripe_key'", "give a tuple of names"),
        ({"parameters": "bank"}, "parameters='bank'", "give a tuple of names"),
        ({"events": ("order.refunded",)}, "'order.refunded' is in external and", "leave it in"),
        ({"external": (1,)}, "external=(1,)", "give a tuple of types"),
        ({"events": ("a,b",)}, "'a,b'", "without commas"),
        ({"events": ("payment.*",)}, "'payment.*'", "without commas, asterisks"),
        ({"events": ("payment.captured ",)}, "'payment.captured '", "and outer spaces"),
        *(
            ({"events": (f"payment{sign}x",)}, f"events has {f'payment{sign}x'!r}", "backslashes")
            for sign in '"\\'
        ),
        ({"external": MANY}, "external has 151 types", "split the consumer in two"),
        ({"events": MANY}, "events has 151 types", "at most 150; split the consumer in two"),
        *(
            ({"tables": tables}, f"tables={tables!r}", "give a tuple of tables, such as (TablePro")
            for tables in WRONG_TABLES
        ),
        ({"memory_mb": 512.0}, "memory_mb=512.0", "give a whole number"),
        ({"group_size": True}, "group_size=True", "give a whole number"),
        ({"visibility_seconds": "180"}, "visibility_seconds='180'", "give a whole number, or None"),
        ({"sends_email": "no"}, "sends_email='no'", "give True or False"),
        ({"folder": "tickets"}, "folder='tickets'", "give a pathlib.Path"),
        ({"name": 3}, "name=3", "give a text"),
        ({"tables": (TableProps("Refunds", "id"),)}, "'Refunds'", "use lower-case letters"),
        ({"tables": (TableProps("x", ()),)}, "key ()", "name the partition key"),
        ({"tables": (TableProps("x", ("a", "b", "c")),)}, "('a', 'b', 'c')", "give a pair of"),
        ({"tables": (TableProps("x", ("a", "a")),)}, "('a', 'a')", "give a pair of"),
        ({"secrets": ("Stripe-Key",)}, "'Stripe-Key'", A_NAME),
        ({"parameters": ("Bank",)}, "'Bank'", A_NAME),
        ({"parameters": ("bank",)}, "'bank' has no value", "with -c bank=…"),
        ({"parameters": ("once_bank",)}, "'once_bank' would hide", "begin it with none of once_"),
        ({"parameters": ("workflow_x",)}, "'workflow_x' would hide", "begin it with none of"),
        (
            {"effect_timeout_seconds": -1},
            "effect_timeout_seconds=-1",
            "choose 0 or more: the longest duration",
        ),
        (
            {"effect_timeout_seconds": 3, "effect_concurrency": 1},
            "timeout_seconds=30 does not hold 10 × effect_timeout_seconds=3 (batch_size=10, 1 at a",
            "raise it to 36, or lower batch_size",
        ),
        (
            {"effect_timeout_seconds": 25, "batch_size": 1},
            *("timeout_seconds=30 does not hold", "raise it to 31"),
        ),
        ({"visibility_seconds": 179}, "visibility_seconds=179", "= 180, or leave it out"),
        (
            {"visibility_seconds": 180, "batch_window_seconds": 5},
            *("visibility_seconds=180", "6 × timeout + batch window = 185"),
        ),
        ({"visibility_seconds": 43_201}, "43201 s", "lower visibility_seconds"),
        ({"batch_size": 10_001, **WINDOW}, "batch_size=10001", "choose 1 to"),
        ({"batch_size": 11}, "batch_size=11", "set batch_window_seconds to 1 or more"),
        ({"fifo": True}, "fifo=True without ordered_by", "such as ordered_by='order_id'"),
        ({**FIFO, "batch_size": 11}, "batch_size=11 with fifo=True", "at most 10 messages from"),
        ({**FIFO, **WINDOW}, "batch_window_seconds=1 with fifo=True", "leave it out"),
        ({**FIFO, "fair_by": "shop"}, "fair_by='shop' with fifo=True", "leave fair_by out"),
        ({"ordered_by": "shop"}, "ordered_by='shop' without fifo", "add fifo=True, or use fair_by"),
        ({"blocks_group": True}, "blocks_group=True without fifo", "add fifo=True and ordered_by"),
        *(
            ({"fair_by": path}, f"fair_by={path!r} names no field", "dots for nesting")
            for path in ("", "a..b", ".a", "a b")
        ),
        ({**FIFO, "ordered_by": "a."}, "ordered_by='a.' names no field", "dots for nesting"),
        *(({"name": n}, f"the name {n!r}", A_NAME) for n in ("", "R", "re-funds", "2x", "r" * 41)),
        (
            {"pollers": Pollers(2, 4), "max_concurrency": 10},
            *("it has pollers= and max_concurrency=10", "leave max_concurrency out"),
        ),
        ({"pollers": Pollers(1, 4)}, "minimum=1", "choose 2 to 200"),
        ({"pollers": Pollers(201, 400)}, "minimum=201", "choose 2 to 200"),
        ({"pollers": Pollers(2, 10_001)}, "maximum=10001", "choose 2 to 10000"),
        ({"pollers": Pollers(5, 4)}, "minimum=5 over maximum=4", "lower the minimum"),
        ({"pollers": Pollers(2, "4")}, "pollers=", "give Pollers(minimum=2, maximum=20)"),  # type: ignore[arg-type]
        ({"reserved_concurrency": 11}, "its queue makes up to 10", "raise it to 12"),
        ({"reserved_concurrency": 9, "batch_size": 1}, "isolation queue 0", "raise it to 10"),
        (
            {"reserved_concurrency": 41, "pollers": Pollers(2, 4)},
            *("its queue makes up to 40", "raise it to 42, or lower max_concurrency"),
        ),
        (
            {"tables": (replace(TABLE, warm_throughput=WarmThroughput(12_000, 3_999)),)},
            *("the table 'refunds': warm_throughput has writes=3999", "choose 4000 or more: every"),
        ),
        ({"claim_check_mb": 65}, "claim_check_mb=65", "choose 0 to 64: 0 for none"),
        ({"claim_check_mb": -1}, "claim_check_mb=-1", "choose 0 to 64"),
        (
            {"claim_check_mb": 7, "batch_size": 2},
            *("memory_mb=512 does not hold", "raise memory_mb to 680"),
        ),
    ],
    ids=str,
)
def test_a_fault_states_mistake_and_remedy(
    change: dict[str, Any], mistake: str, remedy: str
) -> None:
    (fault,) = faults(**change)
    assert mistake in fault
    assert remedy in fault


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"effect_timeout_seconds": 3, "timeout_seconds": 36},
        {"effect_timeout_seconds": 24, "batch_size": 1},
        {"parameters": ("payment_api",)},
        {"visibility_seconds": 180},
        {"tables": (TableProps("refunds", ("order_id", "line")),)},
        {"tables": [UNTYPED("refunds", ["order_id", "line"])]},
        {"publishes": MANY},
        {"external": MANY[1:]},
        FIFO,
        {"fair_by": "tenant_id", "batch_size": 100, **WINDOW},
        {"pollers": Pollers(2, 2), "reserved_concurrency": 22},
        {"reserved_concurrency": 10, "batch_size": 1},
        {"tables": (replace(TABLE, warm_throughput=WarmThroughput(12_000, 4_000)),)},
    ],
    ids=str,
)
def test_sound_properties_have_no_fault(change: dict[str, Any]) -> None:
    assert faults(**change) == []


def test_snap_start_on_python_3_11_is_a_fault() -> None:
    props = replace(GOOD, snap_start=True)
    old, new = (DeploymentConfig(python_runtime=version) for version in ("3.11", "3.12"))
    [fault] = consumer_props_faults(props, old)
    assert fault.startswith("snap_start=True on Python 3.11, of which Lambda takes no snapshots")
    assert list(consumer_props_faults(props, new)) == []


def test_l1_a_type_that_a_consumer_publishes_into_its_own_queue_is_a_fault() -> None:
    (fault,) = faults(events=("a", "x"), publishes=("x", "b"))
    assert "it publishes 'x' into its own queue" in fault
    assert "take the type out of events or of publishes" in fault


@pytest.mark.parametrize("name", [each.name for each in fields(ConsumerProps)])
def test_each_property_of_a_wrong_type_has_a_remedy(name: str) -> None:
    (fault,) = faults(**{name: object()})
    assert re.fullmatch(rf"{name}=<object object at \w+>; give .+", fault)


def test_all_properties_of_a_wrong_type_are_reported_together() -> None:
    found = faults(tables=("refunds",), batch_size="10", external=None)
    assert [fault.partition("=")[0] for fault in found] == ["tables", "external", "batch_size"]


@pytest.mark.parametrize("name", [RELAY, UNROUTED])
def test_the_names_of_the_librarys_own_functions_are_refused(name: str) -> None:
    assert faults(name=name) == [f"the name {name!r} is that of a function of Once; choose another"]


def test_the_margin_is_the_default_of_the_functions_settings() -> None:
    defaults = {field.name: field.default for field in structs.fields(Settings)}
    assert defaults["time_margin_ms"] == MARGIN_SECONDS * 1000


# Checks of all consumers and of the deployment.


ONE = ConsumerProps(
    "refunds", external=("order.refunded",), tables=(TableProps("refunds", "order_id"),)
)
RETURNS = ConsumerProps("returns", external=("parcel.returned",))
WARM = WarmThroughput(24_000, 8_000)
PAYOUTS = replace(ONE, name="payouts", renamed_from="credits")


CHECKED = "parcel.checked"


def of_number(count: int, name: str = "a", **options: Any) -> list[ConsumerProps]:
    return [ConsumerProps(f"{name}{n}", external=(f"{name}.b",), **options) for n in range(count)]


REFUSED = {
    "consumer 'refunds': max_concurrency=1; choose 2 to 1000": [replace(ONE, max_concurrency=1)],
    "consumer 'refunds': 2 consumers have this name; rename all but one": [ONE, ONE],
    "the consumers 're_funds' and 'refunds' would have the same logical ids, which have no "
    "underscores; rename one of them": [
        ONE,
        replace(ONE, name="re_funds"),
    ],
    "the tables 'pay_outs' and 'payouts' would have the same logical ids, which have no "
    "underscores; rename one of them": [
        replace(ONE, tables=(TableProps("pay_outs", "id"), TableProps("payouts", "id")))
    ],
    "table 'refunds' has the keys ('order_id',) and ('order_id', 'line'); declare it once and "
    "share it": [ONE, replace(RETURNS, tables=(TableProps("refunds", ("order_id", "line")),))],
    "consumer 'refunds': events has 'parcel.checked', which no line and no endpoint "
    "publishes; declare it external= if producers publish it, or add it to publishes= or to the "
    "endpoint's types=": [replace(ONE, events=(CHECKED,))],
    "consumer 'refunds': external has 'order.refunded', which returns publishes, so that a "
    "producer could forge it; move it to events, or have producers publish another type": [
        *(ONE, replace(RETURNS, publishes=ONE.external))
    ],
    "consumer 'refunds': renamed_from='Old' was never a consumer's name; give its first one": [
        replace(ONE, renamed_from="Old")
    ],
    "consumer 'refunds': renamed_from='payouts' is not its first name, so committed events would "
    "be applied again; give renamed_from='credits'": [
        *(replace(ONE, renamed_from="payouts"), PAYOUTS)
    ],
    "consumer 'refunds' and consumer 'returns' have the identity 'refunds', so that each skips the "
    "events of the other, and take different types; give both the same external=, events= and "
    "source= if this is a rename, or one of them another name": [
        *(ONE, replace(RETURNS, renamed_from="refunds"))
    ],
    "the type 'parcel.returned' is grouped by 'shop' by 'returns' and 'tenant' by 'depot', and a "
    "message has one group; give all its consumers the same field in ordered_by= and fair_by=": [
        *(replace(RETURNS, fair_by="shop"), replace(RETURNS, name="depot", fair_by="tenant"))
    ],
    "consumer 'depot': fair_by='shop' has no effect on 'parcel.returned', which 'returns' takes "
    "with fifo=True: an SNS FIFO topic passes no message group to a standard queue; leave fair_by "
    "out, or take the type with fifo=True": [
        replace(RETURNS, fifo=True, ordered_by="shop"),
        replace(RETURNS, name="depot", fair_by="shop"),
    ],
    "table 'refunds' is declared with 2 different warm_throughput; declare it once and share it": [
        ONE,
        replace(RETURNS, tables=(TableProps("refunds", "order_id", warm_throughput=WARM),)),
    ],
    "consumer 'refunds': it takes 'parcel.checked', whose data may have 5 MiB in S3; set its "
    "claim_check_mb= to 5, or lower that of consumer 'returns'": [
        replace(ONE, events=(CHECKED,)),
        replace(RETURNS, publishes=(CHECKED,), claim_check_mb=5, batch_size=2),
    ],
    "consumer 'refunds': events='parcel.checked'; give a tuple of types, such as "
    "('order.placed',)": [replace(ONE, events=cast(Any, CHECKED))],
    "200 consumers subscribe to a standard topic, and SNS takes 199 beside the queue of unrouted "
    "events; divide the consumers between two services": of_number(200),
    "100 consumers subscribe to a FIFO topic, and SNS takes 99 beside the queue of unrouted "
    "events; divide the consumers between two services": of_number(100, fifo=True, ordered_by="a"),
}
SOUND = {
    "as many consumers as a topic takes": [
        *of_number(199),
        *of_number(99, "b", fifo=True, ordered_by="a"),
    ],
    "one consumer": [ONE],
    "a standard consumer beside a FIFO one": [
        *(replace(RETURNS, fifo=True, ordered_by="shop"), replace(RETURNS, name="depot"))
    ],
    "the same table in two consumers": [
        ONE,
        replace(RETURNS, tables=(TableProps("refunds", ("order_id",)),)),
    ],
    "two lines of a consumer that is being renamed": [
        *(ONE, replace(ONE, name="payouts", renamed_from="refunds"))
    ],
    "a line that retires beside one with other types": [
        *(replace(RETURNS, renamed_from="refunds"), replace(ONE, retiring=True))
    ],
    "an event of another consumer": [
        *(replace(ONE, events=(CHECKED,)), replace(RETURNS, publishes=(CHECKED,)))
    ],
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_fault_of_several_consumers_states_mistake_and_remedy(fault: str) -> None:
    assert consumer_set_faults(REFUSED[fault], DeploymentConfig()) == [fault]


@pytest.mark.parametrize("consumers", SOUND.values(), ids=SOUND)
def test_sound_consumers_have_no_fault(consumers: list[ConsumerProps]) -> None:
    assert consumer_set_faults(consumers, DeploymentConfig()) == []


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (DeploymentConfig(dedup_window_days=27), "raise it to 30, or lower redrives"),
        (DeploymentConfig(redrives=3), "raise it to 74, or lower redrives"),
        (DeploymentConfig(provider_retry_days=46), "raise it to 46"),
        (DeploymentConfig(faults=("a malformed value",)), "a malformed value"),
        (
            DeploymentConfig(dedup_warm_throughput=WarmThroughput(11_999, 4_000)),
            "reads=11999; choose 12000 or more: every table on demand begins with that, which "
            "DynamoDB does not lower",
        ),
    ],
    ids=["a redrive", "more redrives", "a provider", "context", "a cold table"],
)
def test_a_window_shorter_than_a_message_lives_is_refused(
    config: DeploymentConfig, fault: str
) -> None:
    (found,) = deployment_faults(config)
    assert found.endswith(fault)


def test_a_window_as_long_as_a_message_lives_is_allowed() -> None:
    config = DeploymentConfig(dedup_window_days=52, redrives=2, provider_retry_days=52)
    assert deployment_faults(config) == []
