"""The webhook page: its example runs, and its tables say what profiles and ingress do."""

import math
import re
from textwrap import dedent

import pytest

from once.commit.item_size import item_bytes
from once.testing import FakeAws
from once.webhooks.endpoint import CAPTURES, PROFILES, Profile
from once.webhooks.signature import KEPT_SECONDS, REFRESH_SECONDS
from tests.architecture.imports import ROOT
from tests.docs.test_examples import blocks, run
from tests.docs.test_guarantees import table
from tests.once.webhooks.service import SECRET, Service, stripe_body, stripe_request

PAGE = ROOT / "docs" / "webhooks.md"


def rows(title: str) -> list[list[str]]:
    """Return the cells of the first table of a section, without its head."""
    return table(PAGE.read_text().split(f"\n## {title}\n")[1].split("\n\n")[0])


@pytest.fixture
def service() -> Service:
    return Service()


def test_the_example_takes_a_refund_that_was_sent_twice_once() -> None:
    names = run(PAGE, *map(dedent, blocks(PAGE)))
    refund = stripe_body(data={"object": {"id": "ch_1", "amount_refunded": 700}})
    service = Service(names["WEBHOOKS"].endpoints)
    assert [service.post(stripe_request(refund)) for _ in range(2)] == [200, 200]
    [event] = service.events()
    service.dynamodb.delete_table(TableName="dedup")  # the consumer's is another
    publishers = {event.type: "webhooks"}
    with FakeAws(names["consumer"], {"refunds": "charge_id"}, publishers=publishers) as aws:
        aws.deliver(event.body, event.body)
        assert aws.items("refunds") == [{"charge_id": "ch_1", "amount": 700}]


def words(profile: Profile) -> list[str]:
    """Return the cells of a profile's row that are the profile's values."""
    names = {"timestamp": "time", "body": "body", "id": "id"}
    signed = [names[name] for name in re.findall(r"{(\w+)}", profile.signed)]
    minutes, days, hours = (
        profile.tolerance_seconds // 60,
        profile.retry_seconds // 86400,
        profile.retry_seconds // 3600,
    )
    kilobytes = profile.body_bytes // 1024
    return [
        f"`{profile.name.upper()}`",
        ", ".join(signed),
        "signed" if profile.has_signed_id else "not signed",
        f"± {minutes} min" if minutes else "none",
        f"{days} day{'s' * (days > 1)}" if days else f"{hours} hours",
        f"{kilobytes // 1024} MB" if kilobytes >= 1024 else f"{kilobytes} KB",
    ]


def test_the_table_of_providers_has_the_values_of_the_profiles() -> None:
    shown = [
        [row[0], row[1], row[2].rpartition(", ")[2], row[4], row[6], row[8]]
        for row in rows("Providers")
    ]
    assert shown == [words(profile) for profile in PROFILES.values()]


def test_w4_during_a_rotation_both_secrets_count_and_after_it_the_new_one(
    service: Service,
) -> None:
    arn = service.settings.secrets["stripe"]

    def accepted(secret: str) -> bool:
        request = stripe_request(stripe_body(secret=secret), at=service.now, secret=secret)
        return service.post(request) == 200

    assert accepted(SECRET)
    service.secretsmanager.put_secret_value(SecretId=arn, SecretString="another")
    service.now += REFRESH_SECONDS
    assert accepted("another")
    assert accepted(SECRET)
    service.secretsmanager.put_secret_value(SecretId=arn, SecretString="another")
    service.now += KEPT_SECONDS
    assert accepted("another")
    assert not accepted(SECRET)


@pytest.mark.parametrize("kilobytes", [1, 20])
def test_the_write_units_of_a_webhook_are_those_of_the_page(
    kilobytes: int, service: Service
) -> None:
    record, capture = map(float, re.findall(r"`2 × ⌈B \+ ([\d.]+)⌉`", PAGE.read_text()))
    body = stripe_body()
    body = stripe_body(text=" " * (kilobytes * 1024 - len(body) - len(', "text": ""')))
    assert len(body) == kilobytes * 1024
    assert service.post(stripe_request(body)) == 200
    for name, extra in (("dedup", record), (CAPTURES, capture)):
        [item] = service.dynamodb.scan(TableName=name)["Items"]
        assert math.ceil(item_bytes(item) / 1024) == math.ceil(kilobytes + extra)
