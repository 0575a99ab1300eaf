"""Checks of all consumers and of the deployment: each fault states the mistake and its remedy."""

from dataclasses import replace
from typing import Any, cast

import pytest

from once.cdk.checks.consumer_set import consumer_set_faults
from once.cdk.checks.deployment_options import deployment_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import ConsumerProps, TableProps, WarmThroughput

GOOD = ConsumerProps(
    "refunds", external=("order.refunded",), tables=(TableProps("refunds", "order_id"),)
)
RETURNS = ConsumerProps("returns", external=("parcel.returned",))
WARM = WarmThroughput(24_000, 8_000)
PAYOUTS = replace(GOOD, name="payouts", renamed_from="credits")


CHECKED = "parcel.checked"
REFUSED = {
    "consumer 'refunds': max_concurrency=1; choose 2 to 1000": [replace(GOOD, max_concurrency=1)],
    "consumer 'refunds': 2 consumers have this name; rename all but one": [GOOD, GOOD],
    "table 'refunds' has the keys ('order_id',) and ('order_id', 'line'); declare it once and "
    "share it": [GOOD, replace(RETURNS, tables=(TableProps("refunds", ("order_id", "line")),))],
    "consumer 'refunds': events has 'parcel.checked', which no consumer and no endpoint "
    "publishes; declare it external= if producers publish it, or add it to publishes= or to the "
    "endpoint's types=": [replace(GOOD, events=(CHECKED,))],
    "consumer 'refunds': external has 'order.refunded', which returns publishes, so that a "
    "producer could forge it; move it to events, or have producers publish another type": [
        *(GOOD, replace(RETURNS, publishes=GOOD.external))
    ],
    "consumer 'refunds': renamed_from='Old' was never a consumer's name; give its first one": [
        replace(GOOD, renamed_from="Old")
    ],
    "consumer 'refunds': renamed_from='payouts' is not its first name, so committed events would "
    "be applied again; give renamed_from='credits'": [
        *(replace(GOOD, renamed_from="payouts"), PAYOUTS)
    ],
    "consumer 'refunds' and consumer 'returns' have the identity 'refunds', so that each skips the "
    "events of the other, and take different types; give both the same external=, events= and "
    "source= if this is a rename, or one of them another name": [
        *(GOOD, replace(RETURNS, renamed_from="refunds"))
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
        GOOD,
        replace(RETURNS, tables=(TableProps("refunds", "order_id", warm_throughput=WARM),)),
    ],
    "consumer 'refunds': it takes 'parcel.checked', whose data may have 5 MiB in S3; set its "
    "claim_check_mb= to that of consumer 'returns'": [
        replace(GOOD, events=(CHECKED,)),
        replace(RETURNS, publishes=(CHECKED,), claim_check_mb=5, batch_size=2),
    ],
    "consumer 'refunds': events='parcel.checked'; give a tuple of types, such as "
    "('order.placed',)": [replace(GOOD, events=cast(Any, CHECKED))],
}
SOUND = {
    "one consumer": [GOOD],
    "a standard consumer beside a FIFO one": [
        *(replace(RETURNS, fifo=True, ordered_by="shop"), replace(RETURNS, name="depot"))
    ],
    "the same table in two consumers": [
        GOOD,
        replace(RETURNS, tables=(TableProps("refunds", ("order_id",)),)),
    ],
    "two lines of a consumer that is being renamed": [
        *(GOOD, replace(GOOD, name="payouts", renamed_from="refunds"))
    ],
    "a line that retires beside one with other types": [
        *(replace(RETURNS, renamed_from="refunds"), replace(GOOD, retiring=True))
    ],
    "an event of another consumer": [
        *(replace(GOOD, events=(CHECKED,)), replace(RETURNS, publishes=(CHECKED,)))
    ],
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_fault_states_mistake_and_remedy(fault: str) -> None:
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
            "raise both to that or more, or leave it out",
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
