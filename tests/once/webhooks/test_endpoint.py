"""Faults of endpoints and profiles: each is found, and says its remedy."""

from dataclasses import replace
from typing import Any

import pytest

from once.webhooks.endpoint import (
    GITHUB,
    MAX_REQUEST_BYTES,
    PROFILES,
    SLACK,
    STANDARD,
    STRIPE,
    Encoding,
    Endpoint,
    Form,
    endpoint_faults,
    hmac_profile,
)

PLAIN = hmac_profile("acme", signature_header="X-Signature", retry_seconds=60)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=[*PROFILES])
def test_the_providers_have_no_fault(profile: Any) -> None:
    assert [*endpoint_faults(Endpoint("a", profile, types=("push", "charge.refunded")))] == []


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"name": "Stripe"}, "lower-case letters"),
        ({"name": "a/b"}, "lower-case letters"),
        ({"name": ""}, "lower-case letters"),
        ({"types": ("push", "push")}, "is listed twice"),
        ({"types": ("push,pull",)}, "is not a valid event type"),
        ({"types": ("",)}, "is not a valid event type"),
        ({"types": ("push",), "prefix": " a"}, "is not a valid event type"),
        ({"types": ("*",)}, "is not a valid event type"),
        ({"types": ("push",), "profile": PLAIN}, "set `type` there"),
        ({"body_bytes": MAX_REQUEST_BYTES + 1}, "set at most"),
        ({"body_bytes": -1}, "set at most"),
        ({"trusts_id": True, "profile": STRIPE}, "`trusts_id` has no effect"),
        ({"trusts_id": True, "profile": PLAIN}, "`trusts_id` has no effect"),
    ],
)
def test_a_fault_of_an_endpoint_is_found(given: dict[str, Any], fault: str) -> None:
    [found] = endpoint_faults(replace(Endpoint("github", GITHUB), **given))
    assert fault in found


@pytest.mark.parametrize(
    ("base", "given", "fault"),
    [
        (PLAIN, {"name": "Acme"}, "first part of its event types"),
        (PLAIN, {"signature_header": "X-Signature"}, "lower case"),
        (PLAIN, {"signature_header": ""}, "not a header name"),
        (PLAIN, {"id": "headers:x"}, "is not a place"),
        (PLAIN, {"id": "header:X-Id"}, "is not a place"),
        (PLAIN, {"id": "body:a..b"}, "is not a place"),
        (PLAIN, {"type": ("query:type",)}, "is not a place"),
        (PLAIN, {"type": ("",)}, "leave it out"),
        (STRIPE, {"type_in_key": True}, "`type_in_key` has no effect"),
        (PLAIN, {"signed": "v0"}, "needs {body} once"),
        (PLAIN, {"signed": "{body}{body}"}, "needs {body} once"),
        (PLAIN, {"signed": "{url}.{body}"}, "without braces"),
        (PLAIN, {"signed": "{{body}"}, "without braces"),
        (PLAIN, {"signed": "{body.x}.{body}"}, "without braces"),
        (PLAIN, {"signed": "{id}.{body}", "id": "body:id"}, "value of a header"),
        (PLAIN, {"signed": "{id}{body}", "id": "header:x-id"}, "joins {id}"),
        (SLACK, {"signed": "{timestamp}.{timestamp}.{body}"}, "has a field twice"),
        (PLAIN, {"tolerance_seconds": 300}, "anybody could change"),
        (SLACK, {"tolerance_seconds": 0}, "without a tolerance"),
        (SLACK, {"tolerance_seconds": -1}, "cannot be negative"),
        (SLACK, {"timestamp_header": ""}, "set `timestamp_header`"),
        (STRIPE, {"timestamp_header": "x-time"}, "is not read"),
        (PLAIN, {"timestamp_header": "x-time"}, "is not read"),
        (STRIPE, {"prefix": ""}, "set `prefix`"),
        (STANDARD, {"signed": "{timestamp}.{body}"}, "in base64"),
        (STANDARD, {"encoding": Encoding.HEX}, "in base64"),
        (SLACK, {"challenge": ("url_verification", "")}, "field to return"),
        (PLAIN, {"retry_seconds": 0}, "retry_seconds"),
        (PLAIN, {"answer_seconds": 0}, "answer_seconds"),
        (PLAIN, {"body_bytes": 0}, "set at most"),
    ],
)
def test_a_fault_of_a_profile_is_found(base: Any, given: dict[str, Any], fault: str) -> None:
    [found] = endpoint_faults(Endpoint("a", replace(base, **given)))
    assert fault in found
    assert found.startswith(f"profile {given.get('name', base.name)}: ")


def test_a_generic_profile_reads_headers_in_any_case() -> None:
    profile = hmac_profile(
        "acme",
        signature_header="X-Signature",
        timestamp_header="X-Time",
        signed="{timestamp}.{body}",
        id="header:X-Id",
        type=("body:eventType",),
        retry_seconds=60,
    )
    assert (profile.signature_header, profile.timestamp_header) == ("x-signature", "x-time")
    assert (profile.id, profile.type) == ("header:x-id", ("body:eventType",))
    assert (profile.form, profile.tolerance_seconds) == (Form.PLAIN, 300)


def test_a_generic_profile_with_faults_is_refused_with_all_of_them() -> None:
    with pytest.raises(ValueError, match="set `timestamp_header`") as error:
        hmac_profile("Acme", signature_header="x", signed="{timestamp}.{body}", retry_seconds=0)
    assert len(str(error.value).splitlines()) == 3
