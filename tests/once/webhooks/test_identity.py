"""Identity of webhooks: which two requests are one webhook, and that none raises an error."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.names import Limits
from once.webhooks.endpoint import (
    GITHUB,
    PROFILES,
    SHOPIFY,
    SLACK,
    STANDARD,
    STRIPE,
    Endpoint,
    Profile,
    hmac_profile,
)
from once.webhooks.webhook import Request, Webhook
from tests.once.support import quick

FORM = {"content-type": "Application/X-WWW-Form-Urlencoded; charset=utf-8"}
NO_ID = hmac_profile("acme", signature_header="x-s", retry_seconds=60, volatile=("attempt",))
BODY_ID = hmac_profile("acme", signature_header="x-s", retry_seconds=60, id="body:event.id")


def webhook(profile: Profile, body: Any, headers: Any = (), **endpoint: Any) -> Webhook:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Webhook.of(Endpoint("a", profile, **endpoint), Request("POST", "/a", dict(headers), raw))


def key(*args: Any, **endpoint: Any) -> str:
    return webhook(*args, **endpoint).identity("webhooks").pk


def test_a_signed_id_is_the_key_whatever_else_differs() -> None:
    assert key(STRIPE, {"id": "evt_1"}) == key(STRIPE, {"id": "evt_1", "x": 1})
    assert key(STRIPE, {"id": "evt_1"}) == "webhooks#event#/webhooks/a#evt_1"
    one, other = ({"webhook-id": each} for each in ("msg_1", "msg_2"))
    assert key(STANDARD, {"a": 1}, one) == key(STANDARD, {"a": 2}, one)
    assert key(STANDARD, {"a": 1}, one) != key(STANDARD, {"a": 1}, other)


def test_an_id_that_is_not_signed_does_not_make_another_webhook() -> None:
    for profile in (GITHUB, SHOPIFY):
        name = profile.id.removeprefix("header:")
        one, other = ({name: each} for each in ("1", "2"))
        assert key(profile, {"a": 1}, one) == key(profile, {"a": 1}, other)
        assert key(profile, {"a": 1}, one) != key(profile, {"a": 2}, one)
        assert key(profile, {"a": 1}, one) == key(profile, {"a": 1})
        assert key(profile, b'{"a":1}', one) != key(profile, {"a": 1}, one)


def test_a_trusted_id_tells_equal_bodies_apart_and_is_still_bound_to_the_body() -> None:
    one, other = ({"x-github-delivery": each} for each in ("1", "2"))
    assert key(GITHUB, {"a": 1}, one, trusts_id=True) != key(
        GITHUB, {"a": 1}, other, trusts_id=True
    )
    assert key(GITHUB, {"a": 1}, one, trusts_id=True) != key(GITHUB, {"a": 2}, one, trusts_id=True)


def test_without_an_id_the_canonical_form_is_the_identity() -> None:
    assert key(NO_ID, b'{"a":1,"b":"\\u00e9"}') == key(NO_ID, '{"b": "é", "a": 1}'.encode())
    assert key(NO_ID, {"a": 1, "attempt": 1}) == key(NO_ID, {"a": 1, "attempt": 2})
    assert key(NO_ID, {"a": 1}) != key(NO_ID, {"a": 2})
    assert key(NO_ID, b"\xff") != key(NO_ID, b"\xfe")


def test_fields_that_change_do_not_make_a_conflict() -> None:
    contents = [webhook(STRIPE, {"id": "e", "pending_webhooks": n}).content for n in (0, 1)]
    assert contents[0] == contents[1]
    nested = [webhook(STRIPE, {"id": "e", "a": {"pending_webhooks": n}}).content for n in (0, 1)]
    assert nested[0] != nested[1]


@pytest.mark.parametrize(
    ("profile", "body", "headers", "expected"),
    [
        (STRIPE, {"id": "evt_1", "type": "charge.refunded"}, {}, ("evt_1", "charge.refunded")),
        (GITHUB, {}, {"x-github-delivery": "d", "x-github-event": "push"}, ("d", "push")),
        (SLACK, {"event_id": "Ev1", "event": {"type": "x"}, "type": "y"}, {}, ("Ev1", "x")),
        (SLACK, {"event_id": "Ev1", "event": 1, "type": "y"}, {}, ("Ev1", "y")),
        (BODY_ID, {"event": {"id": 7}}, {}, ("7", "")),
        (BODY_ID, {"event": {"id": 7.5}}, {}, ("", "")),
        (BODY_ID, {"event": {"id": True}}, {}, ("", "")),
        (BODY_ID, {"event.id": "7"}, {}, ("", "")),
        (STRIPE, {"id": " ", "type": ["x"]}, {}, ("", "")),
        (STRIPE, [], {}, ("", "")),
        (GITHUB, {}, {"x-github-event": "\ud800"}, ("", "")),
    ],
)
def test_places_are_read(profile: Profile, body: Any, headers: Any, expected: Any) -> None:
    found = webhook(profile, body, headers)
    assert (found.id, found.type) == expected


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (urlencode({"payload": '{"a": "é&="}'}), {"a": "é&="}),
        ("payload=%7B%7D", {}),
        ("payload={}&payload={}", None),
        ("other={}", None),
        ("payload", None),
        ("", None),
        ("payload=%ff", None),
        ("payload=%22%ff%22", None),
        ("payload={}" + "&a=b" * 100, None),
        ('"payload={}"', None),
        ('{"a": "&payload=1&"}', {"a": "&payload=1&"}),
        (' \n[{"a": "payload=1"}]', [{"a": "payload=1"}]),
    ],
)
def test_a_body_is_a_form_unless_it_is_an_object_or_an_array(body: str, data: Any) -> None:
    for headers in ({}, FORM, {"content-type": "application/json"}):
        assert webhook(GITHUB, body.encode(), headers).data == data


def test_a_form_is_unreadable_for_a_provider_without_forms() -> None:
    assert webhook(STRIPE, b"payload={}", FORM).data is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"{'a': 1}",
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b"[" * 100_000,
        '{"é": 1, "e\u0301": 2}'.encode(),  # one name in two spellings: there is no canonical form
    ],
)
def test_a_body_that_is_not_strict_json_has_its_bytes_as_content(body: bytes) -> None:
    found = webhook(STRIPE, body)
    assert (found.data, found.content) == (None, found.sha256)
    pushed = webhook(GITHUB, body, {"x-github-event": "push"}, types=("push",))
    assert (pushed.type, pushed.event_type) == ("push", None)
    assert found.identity("webhooks").pk.endswith(f"sha256:{found.sha256}")


LONG = ["x" * 3000, "é" * 512, "#" * 5000, "%" * 512, "\U0001d160" * 128, "\ud800", "a\udfff" * 9]


@pytest.mark.parametrize("webhook_id", LONG)
@pytest.mark.parametrize("profile", [STANDARD, GITHUB, SHOPIFY], ids=lambda each: each.name)
def test_every_id_and_type_makes_a_key_that_a_table_takes(
    profile: Profile, webhook_id: str
) -> None:
    def key_of(text: str) -> str:
        headers = {place.removeprefix("header:"): text for place in (profile.id, *profile.type)}
        return key(profile, {"a": 1}, headers, trusts_id=not profile.has_signed_id)

    assert len(key_of(webhook_id).encode()) <= Limits.PARTITION_KEY_BYTES
    assert key_of(webhook_id) == key_of(webhook_id) != key_of(webhook_id + "x")


@quick
@given(
    st.sampled_from([*PROFILES.values(), NO_ID, BODY_ID]),
    st.binary(max_size=80) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace")),
    st.text(),
    st.sampled_from([{}, FORM]),
)
def test_no_request_raises_an_error(profile: Profile, body: bytes, text: str, form: Any) -> None:
    headers = {name.removeprefix("header:"): text for name in (profile.id, *profile.type)}
    found = webhook(profile, body, headers | form)
    assert len(found.identity("webhooks").fingerprint) == len(found.content)
