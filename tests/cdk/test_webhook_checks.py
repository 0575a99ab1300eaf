"""Checks of a webhook ingress: each fault states the mistake and its remedy."""

from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest

from once.cdk import (
    GITHUB,
    SLACK,
    STRIPE,
    CaptureTable,
    ConsumerProps,
    DedupTable,
    DeployedNames,
    DeploymentConfig,
    Endpoint,
    SynthError,
    WebhookFunction,
    WebhookProps,
    consumer_set_faults,
    event_sources,
    hmac_profile,
    missing_name_faults,
    published_types,
)
from once.cdk.checks.constructs import webhook_wiring_faults
from once.cdk.checks.consumer_set import route_warnings

STRIPES = Endpoint("stripe", STRIPE, types=("charge.refunded",))
GOOD = WebhookProps(endpoints=(STRIPES,))
REFUNDS = ConsumerProps("refunds", events=("stripe.charge.refunded",))
PUSHES = Endpoint("github", GITHUB, types=("push",))
BUILDS = ConsumerProps("builds", events=("github.push",), claim_check_mb=4, batch_size=1)
LATE = hmac_profile("late", signature_header="x-sign", retry_seconds=46 * 86400)

FAULTS: dict[str, WebhookProps] = {
    "4194304 bytes, which may take 64 times its size; raise memory_mb to 320, or": replace(
        GOOD, endpoints=(PUSHES,), memory_mb=256
    ),
    "endpoint 'Stripe': 'Stripe' is not a valid name": replace(
        GOOD, endpoints=(Endpoint("Stripe", STRIPE),)
    ),
    "it has no endpoint; give endpoints=": replace(GOOD, endpoints=()),
    "the endpoints 'a-b' and 'ab' have one name, or differ in hyphens only; rename one": replace(
        GOOD, endpoints=(Endpoint("a-b", STRIPE), Endpoint("ab", STRIPE))
    ),
    "endpoint 'late': dedup_window_days=45: late sends a webhook again for 46 days": replace(
        GOOD, endpoints=(Endpoint("late", LATE),)
    ),
    "timeout_seconds=5; choose 6 to 900": replace(GOOD, timeout_seconds=5),
    "timeout_seconds=60 with http_api=True; lower it to 30": replace(
        GOOD, timeout_seconds=60, http_api=True
    ),
    "capture_days=46; choose 1 to 45, which is dedup_window_days": replace(GOOD, capture_days=46),
    "memory_mb=64; choose 128 to 10240": replace(GOOD, memory_mb=64),
    "reserved_concurrency=0; choose 1 or more: 0 would admit no request": replace(
        GOOD, reserved_concurrency=0
    ),
    "the name 'web-hooks' cannot be part of dedup keys": replace(GOOD, name="web-hooks"),
    "the name 'outbox_relay' is that of a function": replace(GOOD, name="outbox_relay"),
}


def set_faults(webhooks: WebhookProps, *consumers: ConsumerProps) -> list[str]:
    return consumer_set_faults([*consumers, webhooks], DeploymentConfig())


def test_a_sound_ingress_has_no_fault() -> None:
    every = WebhookProps(endpoints=(STRIPES, PUSHES, Endpoint("slack-team", SLACK)))
    assert set_faults(GOOD, REFUNDS) == []
    assert set_faults(every, REFUNDS, BUILDS) == []


@pytest.mark.parametrize("mistake", FAULTS)
def test_a_fault_names_the_ingress_the_mistake_and_the_remedy(mistake: str) -> None:
    found = [each for each in set_faults(FAULTS[mistake]) if mistake in each]
    assert len(found) == 1
    assert found[0].startswith("webhook ingress ")
    assert ";" in found[0] or ":" in found[0]


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"endpoints": STRIPES}, "give a tuple such as (Endpoint('stripe', STRIPE),)"),
        ({"endpoints": (Endpoint("a", "stripe"),)}, "give a tuple such as"),  # type: ignore[arg-type]
        ({"endpoints": (replace(STRIPES, body_bytes="9"),)}, "give a tuple such as"),  # type: ignore[arg-type]
        ({"capture_days": "30"}, "give a whole number"),
        ({"http_api": 1}, "give True or False"),
        ({"folder": "functions"}, "give a pathlib.Path"),
    ],
)
def test_a_property_of_a_wrong_type_is_the_only_fault(change: dict[str, Any], remedy: str) -> None:
    (fault,) = set_faults(replace(GOOD, **change))
    assert remedy in fault


def test_an_ingress_and_a_consumer_share_no_name_and_no_identity() -> None:
    for consumer in (
        replace(REFUNDS, name="webhooks"),
        replace(REFUNDS, renamed_from="webhooks"),
    ):
        (fault,) = set_faults(GOOD, consumer)
        assert "has this name too" in fault


def test_consumers_of_large_webhooks_need_a_claim_check() -> None:
    (fault,) = set_faults(WebhookProps(endpoints=(PUSHES,)), replace(BUILDS, claim_check_mb=3))
    assert "set its claim_check_mb= to 4" in fault
    small = replace(PUSHES, body_bytes=240 * 1024)
    assert set_faults(WebhookProps(endpoints=(small,)), replace(BUILDS, claim_check_mb=0)) == []


def test_the_types_of_endpoints_come_from_the_ingress_and_are_not_external() -> None:
    assert published_types([REFUNDS, GOOD]) == {"webhooks": ("stripe.charge.refunded",)}
    sources = {"stripe.charge.refunded": ("/once/webhooks",)}
    assert event_sources(REFUNDS, [REFUNDS, GOOD]) == sources
    (unknown,) = consumer_set_faults([REFUNDS], DeploymentConfig())
    assert "which no line and no endpoint publishes" in unknown
    forgeable = replace(REFUNDS, events=(), external=REFUNDS.events)
    (fault,) = set_faults(GOOD, forgeable)
    assert "which webhooks publishes, so that a producer could forge it" in fault


def test_a_type_that_no_consumer_takes_is_a_warning() -> None:
    assert list(route_warnings([REFUNDS, GOOD])) == []
    (warning,) = route_warnings([GOOD])
    assert warning.id == "once:no-subscriber:stripe.charge.refunded"
    assert "endpoint 'stripe' hands on 'stripe.charge.refunded'" in warning.text


def test_the_parts_of_an_ingress_are_checked(tmp_path: Any) -> None:
    (tmp_path / "handler.py").touch()
    props = replace(GOOD, folder=tmp_path, endpoints=(STRIPES, PUSHES))
    published = {"webhooks": props.publishes}
    arns = {"stripe": "arn:1", "github": "arn:2"}
    bucket: Any = object()
    assert list(webhook_wiring_faults(props, arns, published, bucket)) == []
    for faults, start in (
        (webhook_wiring_faults(GOOD, arns, published, bucket), "folder=None; give the path"),
        (webhook_wiring_faults(props, {"stripe": "arn"}, published, bucket), "the secret of"),
        (webhook_wiring_faults(props, arns, None, bucket), "it publishes events, and they would"),
        (webhook_wiring_faults(props, arns, {}, bucket), "the relay does not publish github.push"),
        (webhook_wiring_faults(props, arns, published, None), "its endpoints take bodies of"),
    ):
        (fault,) = faults
        assert fault.startswith(start)


def test_faults_of_the_parts_end_the_synthesis_together() -> None:
    stack = cdk.Stack()
    dedup, captures = DedupTable(stack, "dedup"), CaptureTable(stack, "captures")
    props = WebhookProps(endpoints=(PUSHES,))
    with pytest.raises(SynthError) as caught:
        WebhookFunction(stack, props, dedup_table=dedup, captures=captures, secrets={})
    assert len(caught.value.faults) == 4


def test_a_deployed_endpoint_stays() -> None:
    deployed = DeployedNames.of([REFUNDS, GOOD])
    assert list(missing_name_faults(deployed, [REFUNDS, GOOD])) == []
    hooks, pushes = replace(GOOD, name="hooks"), replace(GOOD, endpoints=(PUSHES,))
    for lines in ([], [hooks], [pushes]):
        (fault,) = missing_name_faults(deployed, [REFUNDS, *lines])
        assert "endpoint 'stripe' of the webhook ingress 'webhooks' was deployed" in fault


def test_recorded_endpoints_are_added_to_the_known_ones(tmp_path: Any) -> None:
    file = tmp_path / "deployed.json"
    file.write_text("{}")
    assert DeployedNames.of([GOOD]).record(file, "once") == ["webhooks/stripe"]
    both = DeployedNames.of([replace(GOOD, endpoints=(PUSHES,))])
    assert both.record(file, "once") == ["webhooks/github"]
    assert DeployedNames.read(file, "once").endpoints == {"webhooks": ("github", "stripe")}


@pytest.mark.parametrize(
    ("endpoint", "timeout", "margin"), [("slack", 10, 8000), ("stripe", 10, 5000)]
)
def test_the_function_stops_trying_before_the_provider_gives_up(
    endpoint: str, timeout: int, margin: int
) -> None:
    profile = {"slack": SLACK, "stripe": STRIPE}[endpoint]
    props = WebhookProps(endpoints=(Endpoint(endpoint, profile),), timeout_seconds=timeout)
    assert props.time_margin_ms(DeploymentConfig().time_margin_ms) == margin
    assert props.time_margin_ms(margin + 1) == margin + 1


def test_a_deployment_can_reserve_less_or_nothing() -> None:
    for given, local, expected in ((None, False, 20), (0, False, None), (7, False, 7)):
        config = DeploymentConfig(webhook_concurrency=given, local=local)
        assert config.webhook_reservation(20) == expected
    assert DeploymentConfig(local=True).webhook_reservation(20) is None
