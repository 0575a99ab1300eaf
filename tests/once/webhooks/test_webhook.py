"""A webhook: endpoint and profile, HTTP request, identity, and headers that no signature covers."""

import base64
import hmac
import json
from dataclasses import replace
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import pytest

from once.names import Limits, Metric
from once.runtime.lambda_http import Request, answer, body_bytes, route_of
from once.webhooks.captured_webhook import CaptureStanding, Conflict
from once.webhooks.endpoint import (
    GITHUB,
    MAX_REQUEST_BYTES,
    PROFILES,
    SHOPIFY,
    SLACK,
    STANDARD,
    STRIPE,
    Encoding,
    Endpoint,
    Form,
    Profile,
    endpoint_faults,
    hmac_profile,
)
from once.webhooks.signature import sign
from once.webhooks.webhook import Webhook, rebuilt_event
from tests.once.webhooks.service import NOW, SECRET, Service, github_request, request

CONTEXT = {
    "accountId": "123456789012",
    "apiId": "api-id",
    "authentication": None,
    "domainName": "id.execute-api.us-east-1.amazonaws.com",
    "domainPrefix": "id",
    "http": {
        "method": "POST",
        "path": "/my/path",
        "protocol": "HTTP/1.1",
        "sourceIp": "192.0.2.1",
        "userAgent": "agent",
    },
    "requestId": "id",
    "routeKey": "$default",
    "stage": "$default",
    "time": "12/Mar/2020:19:03:58 +0000",
    "timeEpoch": 1583348638390,
}
EVENT: dict[str, Any] = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/my/path",
    "rawQueryString": "parameter1=value1&parameter1=value2&parameter2=value",
    "cookies": ["cookie1", "cookie2"],
    "headers": {"header1": "value1", "header2": "value1,value2"},
    "queryStringParameters": {"parameter1": "value1,value2", "parameter2": "value"},
    "requestContext": CONTEXT,
    "body": "Hello from client!",
    "pathParameters": None,
    "isBase64Encoded": False,
    "stageVariables": None,
}
"""The example that AWS documents for function URLs."""

HTTP_API = EVENT | {
    "body": "Hello from Lambda",
    "pathParameters": {"parameter1": "value1"},
    "stageVariables": {"stageVariable1": "value1"},
}
"""The one for HTTP APIs, as far as it differs."""


@pytest.mark.parametrize("event", [EVENT, HTTP_API], ids=["function URL", "HTTP API"])
def test_the_examples_of_aws_are_read(event: dict[str, Any]) -> None:
    request = Request.of(event)
    assert request == Request(
        "POST",
        "/my/path?parameter1=value1&parameter1=value2&parameter2=value",
        {"header1": "value1", "header2": "value1,value2"},
        event["body"].encode(),
    )
    assert route_of(event)[1] == "my/path"


@pytest.mark.parametrize(
    ("path", "stage", "endpoint"),
    [
        ("/stripe", "$default", "stripe"),
        ("/stripe/", "$default", "stripe"),
        ("/prod/stripe", "prod", "stripe"),
        ("/stripe", "prod", "stripe"),
        ("/stripe", "stripe", ""),
        ("/production", "prod", "production"),
        ("/prod/stripe", "$default", "prod/stripe"),
        ("/", "$default", ""),
    ],
)
def test_the_endpoint_is_the_path_without_the_stage(path: str, stage: str, endpoint: str) -> None:
    event = EVENT | {"rawPath": path, "requestContext": CONTEXT | {"stage": stage}}
    assert route_of(event)[1] == endpoint


BODIES: dict[str, tuple[dict[str, Any], bytes]] = {
    "text": ({"body": "é"}, "é".encode()),
    "base64": (
        {"body": base64.b64encode(b"\x00\xff").decode(), "isBase64Encoded": True},
        b"\0\xff",
    ),
    "null": ({"body": None}, b""),
    "empty": ({"body": "", "isBase64Encoded": True}, b""),
    "lone surrogate": ({"body": "\ud800"}, b"?"),
}


@pytest.mark.parametrize(("fields", "body"), BODIES.values(), ids=BODIES)
def test_a_body_is_read(fields: dict[str, Any], body: bytes) -> None:
    assert Request.of(EVENT | fields).body == body


def test_missing_parts_are_empty_and_the_names_of_headers_in_lower_case() -> None:
    event = {name: EVENT[name] for name in ("rawPath", "requestContext")}
    assert Request.of(event) == Request("POST", "/my/path", {}, b"")
    named = Request.of(event | {"headers": {"Stripe-Signature": "T=1"}})
    assert named.headers == {"stripe-signature": "T=1"}


@pytest.mark.parametrize("size", range(7))
def test_the_size_of_a_body_is_known_without_decoding_it(size: int) -> None:
    body = b"x" * size
    assert body_bytes({"body": base64.b64encode(body).decode(), "isBase64Encoded": True}) == size
    assert body_bytes({"body": body.decode()}) == size


NO_TEXT = "where a request of Lambda has a text$"


@pytest.mark.parametrize(
    ("event", "error", "text"),
    [
        ({}, KeyError, "rawPath"),
        ({"version": "1.0", "path": "/stripe", "requestContext": {}}, KeyError, "rawPath"),
        ({"Records": []}, KeyError, "rawPath"),
        (EVENT | {"headers": {"a": ["b"]}}, TypeError, f"^list {NO_TEXT}"),
        (EVENT | {"body": {"a": 1}}, TypeError, f"^dict {NO_TEXT}"),
        (EVENT | {"body": "!", "isBase64Encoded": True}, ValueError, "^the body is not base64: "),
        (EVENT | {"rawPath": None}, TypeError, f"^NoneType {NO_TEXT}"),
    ],
)
def test_an_event_of_another_form_is_refused(
    event: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Request.of(event)


def test_an_answer_is_a_text() -> None:
    headers = {"content-type": "text/plain", "allow": "POST"}
    assert answer(405, allow="POST") == {"statusCode": 405, "headers": headers, "body": ""}


# Identity of webhooks: which two requests are one webhook, and that none raises an error.


FORM_HEADERS = {"content-type": "Application/X-WWW-Form-Urlencoded; charset=utf-8"}
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
    marked = webhook(STRIPE, '\ufeff{"id": "e", "pending_webhooks": 2}'.encode())
    assert (marked.id, marked.content) == ("e", contents[0])
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
        (BODY_ID, {"event": {"id": 7.0}}, {}, ("7", "")),
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
        ("payload={}&payload", None),
        ("other={}", None),
        ("payload", None),
        ("", None),
        ("payload=%ff", None),
        ("payload=%22%ff%22", None),
        ("payload={}" + "&a=b" * 100, None),
        ('"payload={}"', None),
        ('{"a": "&payload=1&"}', {"a": "&payload=1&"}),
        (' \n[{"a": "payload=1"}]', [{"a": "payload=1"}]),
        ('\ufeff{"a": "&payload=1&"}', {"a": "&payload=1&"}),
        ("payload=%EF%BB%BF{}", {}),
    ],
)
def test_a_body_is_a_form_unless_it_is_an_object_or_an_array(body: str, data: Any) -> None:
    for headers in ({}, FORM_HEADERS, {"content-type": "application/json"}):
        assert webhook(GITHUB, body.encode(), headers).data == data
    assert webhook(STRIPE, b"payload={}", FORM_HEADERS).data is None  # it sends no forms


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"\xef\xbb\xbf\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
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


TICKET = b'{"type": "ticket.opened"}'


def test_an_id_in_a_svix_header_is_the_key_and_is_kept() -> None:
    service = Service((Endpoint("standard", STANDARD, types=("ticket.opened",)),))
    made = sign(STANDARD, SECRET, TICKET, webhook_id="msg_1", now=NOW)
    svix = {name.replace("webhook-", "svix-"): value for name, value in made.items()}
    for headers in (svix, svix | {"webhook-id": "other"}, made):
        assert service.post(request("/standard", TICKET, headers)) == 200
    assert service.counted() == [TAKEN, DUPLICATE, DUPLICATE]
    [capture] = service.captures()
    assert (capture.webhook_id, capture.headers) == ("msg_1", svix)
    [event] = service.events()
    rebuilt, _ = rebuilt_event(capture, TICKET, service.settings.endpoints[0])
    assert rebuilt.body == event.body


# Headers that no signature covers: they never choose the key, and hide no genuine webhook.


FORM = "application/x-www-form-urlencoded"
TYPES = {
    "stripe": "charge.refunded",
    "github": "push",
    "shopify": "orders/paid",
    "slack": "app_mention",
    "standard": "ticket.opened",
}
BODY = json.dumps({"id": "evt_1", "event_id": "Ev1", "event": {"type": TYPES["slack"]}}).encode()
TAKEN, DUPLICATE = {Metric.WEBHOOKS_TAKEN}, {Metric.WEBHOOK_DUPLICATES}
CONFLICT = {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOK_CONFLICTS}


def body_of(profile: Profile) -> bytes:
    """Return a body with the type in each place of it where a profile has one."""
    return json.dumps(json.loads(BODY) | {"type": TYPES[profile.name]}).encode()


def signed(profile: Profile, body: bytes = BODY, webhook_id: str = "w-1", **headers: str) -> Any:
    """Return a request that the provider of a profile signed, at its endpoint of that name."""
    kind = {place.removeprefix("header:"): TYPES[profile.name] for place in profile.type[:1]}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    made = sign(profile, SECRET, body, webhook_id=webhook_id, now=NOW)
    return request(f"/{profile.name}", body, {**kind, **made, **named})


def shopify(topic: str) -> Any:
    named = {"x-shopify-topic": topic, "x-shopify-webhook-id": "w-1"}
    digest = hmac.new(SECRET.encode(), b'{"id": 7}', sha256).digest()
    mac = {"x-shopify-hmac-sha256": base64.b64encode(digest).decode()}
    return request("/shopify", b'{"id": 7}', named | mac)


def service_of(*types: str, **endpoint: Any) -> Service:
    """Return an ingress with an endpoint for each provider, which hands on further types."""
    return Service(
        tuple(
            Endpoint(p.name, p, types=(TYPES[p.name], *types), **endpoint)
            for p in PROFILES.values()
            if not endpoint or p.id.startswith("header:x-")
        )
    )


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_content_type_does_not_decide_how_a_body_is_read(profile: Profile) -> None:
    service, body = service_of(), body_of(profile)
    for content_type in (FORM, "", "application/json"):
        assert service.post(signed(profile, body, content_type=content_type)) == 200
    assert service.counted() == [TAKEN, DUPLICATE, DUPLICATE]
    assert [each.standing for each in service.captures()] == [CaptureStanding.HANDED_ON]
    [event] = service.events()
    assert json.loads(event.body)["data"] == json.loads(body)


@pytest.mark.parametrize("order", [1, -1], ids=["before", "after"])
@pytest.mark.parametrize("other", ["issues", "unknown", ""])
def test_another_type_for_known_bytes_is_a_conflict_that_is_counted_and_kept(
    other: str, order: int
) -> None:
    service = Service((Endpoint("github", GITHUB, types=("push", "issues")),))
    first, second = (github_request(b"{}", event=each) for each in (other, "push")[::order])
    assert [service.post(each) for each in (first, second, second, first)] == [200] * 4
    assert service.counted() == [TAKEN, CONFLICT, DUPLICATE, DUPLICATE]
    earlier, conflict = sorted(
        service.captures(), key=lambda c: c.standing is CaptureStanding.CONFLICT
    )
    assert conflict.standing is CaptureStanding.CONFLICT
    assert (conflict.conflict, conflict.conflicts_with) == (Conflict.TYPE, earlier.pk)
    assert (earlier.conflict, earlier.conflicts_with) == (None, None)
    assert [earlier.webhook_type, conflict.webhook_type] == [*(other, "push")[::order]]
    assert len(service.events()) == (earlier.webhook_type in ("push", "issues"))


def test_two_topics_of_shopify_with_equal_bytes_are_two_events() -> None:
    service = service_of("orders/create")
    for topic in ("orders/create", "orders/paid", "orders/create", "orders/paid"):
        assert service.post(shopify(topic)) == 200
    assert {e.type for e in service.events()} == {"shopify.orders/create", "shopify.orders/paid"}
    assert service.counted() == [TAKEN, TAKEN, DUPLICATE, DUPLICATE]
    assert {each.standing for each in service.captures()} == {CaptureStanding.HANDED_ON}


def test_a_forged_topic_never_takes_the_place_of_the_genuine_one() -> None:
    service = service_of()
    for topic in ("unknown", "", "orders/paid", "orders/paid:", "t" * 5000):
        assert service.post(shopify(topic)) == 200
    assert [event.type for event in service.events()] == ["shopify.orders/paid"]


def test_a_trusted_id_makes_two_webhooks_and_hides_no_type() -> None:
    service = service_of(trusts_id=True)
    for webhook_id, kind in (("1", "push"), ("2", "push"), ("1", "issues"), ("1", "push")):
        sent = signed(GITHUB, webhook_id=webhook_id, x_github_event=kind)
        assert service.post(sent) == 200
    assert len(service.events()) == 2
    assert service.counted() == [TAKEN, TAKEN, CONFLICT, DUPLICATE]


# Faults of endpoints and profiles: each is found, and says its remedy.


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
