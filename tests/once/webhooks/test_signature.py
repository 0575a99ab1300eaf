"""Signatures: which requests are genuine, the providers' examples, and the cache of secrets."""

import base64
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.hmac import HMAC
from hypothesis import example, given
from hypothesis import strategies as st

from once.errors import MissingExtra
from once.runtime.lambda_http import Request
from once.testing.faults import inject, never_sent
from once.webhooks.endpoint import (
    GITHUB,
    SHOPIFY,
    SLACK,
    STANDARD,
    STRIPE,
    Encoding,
    Endpoint,
    Profile,
    hmac_profile,
)
from once.webhooks.signature import (
    KEPT_SECONDS,
    OUTAGE_SECONDS,
    REFRESH_SECONDS,
    SecretCache,
    Secrets,
    SecretsUnavailable,
    sign,
    verify,
)
from tests.once.webhooks.service import (
    ALL,
    FORGED,
    GENERIC,
    GENUINE,
    PAID,
    PREVIOUS,
    PUBLIC_KEY,
    SECRET_KEY,
    SIGNED_AT,
    STALE,
    STANDARD_KEY,
    Service,
    check,
    request,
    signed_by,
    stripe_body,
    stripe_request,
)

TIMED = [each for each in ALL if each.tolerance_seconds]
each_profile = pytest.mark.parametrize("profile", ALL, ids=lambda each: each.name)


@each_profile
def test_what_is_signed_is_genuine_and_each_change_is_forged(profile: Profile) -> None:
    headers = signed_by(profile, STANDARD_KEY, PAID)
    assert check(profile, headers) is GENUINE
    # W1: the same JSON, written again
    assert check(profile, headers, json.dumps(json.loads(PAID), indent=1).encode()) is FORGED
    assert check(profile, headers, PAID, PREVIOUS) is FORGED
    assert check(profile, {}) is FORGED
    assert check(profile, headers, PAID, "") is FORGED
    assert verify(profile, (), Request("POST", "/a", headers, PAID), SIGNED_AT) is FORGED


@each_profile
def test_the_current_and_the_previous_secret_count_during_a_rotation(profile: Profile) -> None:
    for secret in (STANDARD_KEY, PREVIOUS):  # W4
        headers = signed_by(profile, secret, PAID)
        assert check(profile, headers, PAID, STANDARD_KEY, PREVIOUS) is GENUINE
        assert check(profile, headers, PAID, "no base64 é", "", PREVIOUS, STANDARD_KEY) is GENUINE


def test_one_of_several_signatures_is_enough() -> None:
    one, other = (
        signed_by(STRIPE, each, PAID)["stripe-signature"] for each in (PREVIOUS, STANDARD_KEY)
    )
    both = f"{one},v1=no hex,{other.partition(',')[2]},v0={'0' * 64}"
    assert check(STRIPE, {"stripe-signature": both}) is GENUINE
    headers = signed_by(STANDARD, STANDARD_KEY, PAID)
    public = signed_by(STANDARD, SECRET_KEY, PAID)["webhook-signature"]
    genuine = f"{public} {headers['webhook-signature']}"
    headers["webhook-signature"] = f"v1,AAAA v1,x v1a,x v2,x {genuine} v1a,x"
    assert check(STANDARD, headers) is GENUINE
    assert check(STANDARD, headers, PAID, PUBLIC_KEY) is GENUINE


def test_signatures_of_another_version_do_not_count() -> None:
    header = signed_by(STRIPE, STANDARD_KEY, PAID)["stripe-signature"].replace("v1=", "v0=")
    assert check(STRIPE, {"stripe-signature": header}) is FORGED
    public = signed_by(STANDARD, SECRET_KEY, PAID)
    public["webhook-signature"] = public["webhook-signature"].replace("v1a,", "v1,")
    assert check(STANDARD, public, PAID, PUBLIC_KEY) is FORGED
    for version in ("v2,", "v1a,", "", "V1,"):
        headers = signed_by(STANDARD, STANDARD_KEY, PAID)
        headers["webhook-signature"] = headers["webhook-signature"].replace("v1,", version)
        assert check(STANDARD, headers) is FORGED


@pytest.mark.parametrize("profile", TIMED, ids=lambda each: each.name)
def test_a_time_is_stale_on_both_sides_of_the_tolerance(profile: Profile) -> None:
    headers = signed_by(profile, STANDARD_KEY, PAID)  # W3
    for offset, expected in ((300, GENUINE), (301, STALE)):
        for now in (SIGNED_AT + offset, SIGNED_AT - offset):
            assert check(profile, headers, now=now) is expected
    assert check(profile, headers, PAID, PREVIOUS, now=SIGNED_AT + 301) is FORGED


def test_a_header_with_many_signatures_is_forged() -> None:
    header = signed_by(STRIPE, STANDARD_KEY, PAID)["stripe-signature"]
    for decoys, expected in ((15, GENUINE), (16, FORGED)):
        assert check(STRIPE, {"stripe-signature": header + ",v1=00" * decoys}) is expected
        headers = signed_by(STANDARD, STANDARD_KEY, PAID)
        mixed = " v1,AAAA" * (decoys - 8) + " v1a,AAAA" * 8
        headers["webhook-signature"] += mixed
        assert check(STANDARD, headers) is expected


BAD_TIMES = [
    "",
    "-1",
    "1e9",
    "١٨٠٠٠٠٠٠٠٠",
    "1800000000.0",
    "9" * 5000,
    " 1800000000",
    "²",
    "\ud800",
]


@pytest.mark.parametrize("profile", TIMED, ids=lambda each: each.name)
@pytest.mark.parametrize("text", BAD_TIMES)
def test_a_time_that_is_no_number_is_not_genuine(profile: Profile, text: str) -> None:
    headers = signed_by(profile, STANDARD_KEY, PAID)
    changed = {n: v.replace(str(SIGNED_AT), text) for n, v in headers.items()}
    assert check(profile, changed) is FORGED


def test_a_signed_time_that_is_no_number_is_stale() -> None:
    headers = {"x-acme-id": "a", "x-acme-time": "١٨", "x-acme": ""}
    mac = HMAC(STANDARD_KEY.encode(), hashes.SHA256())
    mac.update("a|١٨|".encode() + PAID)
    assert check(GENERIC, headers | {"x-acme": mac.finalize().hex()}) is STALE


@pytest.mark.parametrize("webhook_id", ["{body}", "{0}", "{id}__class__", "%s", "}{", "a-b", "é"])
def test_an_id_is_never_a_template(webhook_id: str) -> None:
    for profile in (STANDARD, GENERIC):
        headers = sign(profile, STANDARD_KEY, PAID, webhook_id=webhook_id, now=SIGNED_AT)
        assert check(profile, headers) is GENUINE
        name = profile.id.removeprefix("header:")
        assert check(profile, headers | {name: f"{webhook_id}x"}) is FORGED
        assert check(profile, headers | {name: "\ud800"}) is FORGED
    public = sign(STANDARD, SECRET_KEY, PAID, webhook_id=webhook_id, now=SIGNED_AT)
    assert check(STANDARD, public | {"webhook-id": "\ud800"}, PAID, PUBLIC_KEY) is FORGED


# The signed bytes have one reading: no request can be cut anew into another id, time and body.


TEMPLATES = [
    *("{timestamp}{body}", "{body}{timestamp}", "{body}.{id}", "{id}||{body}", "{body}||{id}"),
    *("v0:{timestamp}:{id}:{body}", "{id}.{body}.{timestamp}", "{timestamp}.{body}|.{id}"),
    *("{id}é{body}", "a{id}00{timestamp}{body}", "{id}={timestamp}&{body}", "{timestamp}0{body}"),
]
SCHEMES = [
    *ALL,
    *(
        hmac_profile(
            "acme",
            signature_header="x-sign",
            signed=signed,
            timestamp_header="x-time" if "{timestamp}" in signed else "",
            id="header:x-id" if "{id}" in signed else "",
            retry_seconds=1,
        )
        for signed in TEMPLATES
    ),
]
TIMES = tuple(str(SIGNED_AT + seconds) for seconds in (0, -300, 300))
Texts = st.lists(
    st.sampled_from(("a", ".", "|", ":", "=", "&", "é", "0", "1", "{id}", *TIMES)), max_size=4
).map("".join)


def cuts(parts: list[str], content: bytes) -> Iterator[dict[str, bytes]]:
    """Yield the values of the fields with which the parts of a template give these bytes."""
    if not parts:
        yield from [{}] * (not content)
        return
    first, rest = parts[0], parts[1:]
    is_field = first in ("{id}", "{timestamp}", "{body}")
    ends = range(len(content) + 1) if is_field else [len(first.encode())]
    for end in ends:
        if is_field or content[:end] == first.encode():
            for found in cuts(rest, content[end:]):
                yield {**found, first: content[:end]}


@given(scheme=st.sampled_from(SCHEMES), webhook_id=Texts, before=Texts, after=Texts)
@example(scheme=STANDARD, webhook_id="a", before=f"{TIMES[1]}.", after="{}")
@example(scheme=SCHEMES[len(ALL) + 1], webhook_id="", before="", after="0")
@example(scheme=SCHEMES[len(ALL) + 4], webhook_id="a||0", before="", after="{}")
def test_signed_bytes_are_of_one_id_one_time_and_one_body(
    scheme: Profile, webhook_id: str, before: str, after: str
) -> None:
    parts = [part for part in re.split(r"(\{\w+\})", scheme.signed) if part]
    given_values = {"{id}": webhook_id, "{timestamp}": str(SIGNED_AT), "{body}": before + after}
    content = "".join(given_values.get(part, part) for part in parts).encode()
    signature = signature_of(scheme, content)
    genuine = set()
    for found in cuts(parts, content):
        time, name = (found.get(each, b"").decode("latin-1") for each in ("{timestamp}", "{id}"))
        text = f"t={time},v1={signature}" if scheme is STRIPE else signature
        headers = {scheme.signature_header: text, scheme.timestamp_header: time}
        headers[scheme.id.removeprefix("header:")] = found.get("{id}", b"").decode(errors="replace")
        if check(scheme, headers, found["{body}"]) is GENUINE:
            genuine.add((name, time, found["{body}"]))
    assert len(genuine) <= 1
    if webhook_id.isalpha() and webhook_id.isascii():
        assert genuine


def signature_of(scheme: Profile, content: bytes) -> str:
    """Return the signature over these bytes, as a profile's header holds it."""
    is_standard = scheme is STANDARD
    key = base64.b64decode(STANDARD_KEY[6:]) if is_standard else STANDARD_KEY.encode()
    mac = HMAC(key, hashes.SHA256())
    mac.update(content)
    digest = mac.finalize()
    text = digest.hex() if scheme.encoding is Encoding.HEX else base64.b64encode(digest).decode()
    return text if scheme is STRIPE else f"{'v1,' if is_standard else scheme.prefix}{text}"


def test_an_id_with_the_separator_of_its_scheme_is_forged_and_not_signed() -> None:
    headers = {"webhook-id": "a.b", "webhook-timestamp": str(SIGNED_AT)}
    text = signature_of(STANDARD, f"a.b.{SIGNED_AT}.".encode() + PAID)
    assert check(STANDARD, headers | {"webhook-signature": text}) is FORGED
    for profile, webhook_id in ((STANDARD, "a.b"), (GENERIC, "a|b")):
        with pytest.raises(ValueError, match=r"^the id contains '[.|]', which ends it in what is"):
            sign(profile, STANDARD_KEY, PAID, webhook_id=webhook_id, now=SIGNED_AT)


# Svix has header names of its own for Standard Webhooks.


def by_svix(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("webhook-", "svix-"): value for name, value in headers.items()}


@pytest.mark.parametrize("secret", [STANDARD_KEY, SECRET_KEY])
def test_svix_headers_are_standard_webhooks_and_one_set_is_read_at_a_time(secret: str) -> None:
    standard = signed_by(STANDARD, secret, PAID)
    svix = by_svix(sign(STANDARD, secret, PAID, webhook_id="msg_2", now=SIGNED_AT))
    given = (PAID, STANDARD_KEY, PUBLIC_KEY)
    for headers in (svix, standard | svix, svix | {"webhook-id": "x", "webhook-timestamp": "1"}):
        assert check(STANDARD, headers, *given) is GENUINE
    for name in svix:
        assert check(STANDARD, svix | {name: "x"}, *given) is FORGED
        own = {**svix, **standard, name.replace("svix", "webhook"): "x"}
        assert check(STANDARD, own, *given) is FORGED
    mixed = {**standard, "svix-id": svix["svix-id"]}
    del mixed["webhook-id"]
    assert check(STANDARD, mixed, *given) is FORGED
    assert check(GENERIC, svix, *given) is FORGED


def test_standard_webhooks_sign_an_id_and_the_digits_of_the_time() -> None:
    headers = sign(STANDARD, STANDARD_KEY, PAID, webhook_id="", now=SIGNED_AT)
    assert check(STANDARD, headers) is FORGED
    headers = signed_by(STANDARD, STANDARD_KEY, PAID)
    assert check(STANDARD, headers | {"webhook-timestamp": f"0{SIGNED_AT}"}) is FORGED


def test_a_body_that_is_no_utf8_is_forged_or_genuine_but_raises_nothing() -> None:
    for profile in (STRIPE, GITHUB):
        assert check(profile, signed_by(profile, STANDARD_KEY, b"\xff\xfe"), b"\xff\xfe") is GENUINE
    assert check(STANDARD, signed_by(STANDARD, STANDARD_KEY, PAID), b"\xff\xfe") is FORGED
    public = signed_by(STANDARD, SECRET_KEY, b"\xff\xfe")
    assert check(STANDARD, public, b"\xff\xfe", PUBLIC_KEY) is GENUINE


@pytest.mark.parametrize(
    "secret",
    [
        *("whsec_", "whsec_é", "whsec_A", "whpk_", "whpk_AAAA", "whpk_é", "whsk_AAAA"),
        *(PUBLIC_KEY[:-4], f"{PUBLIC_KEY[:9]}!{PUBLIC_KEY[9:]}"),
    ],
)
def test_a_secret_that_cannot_be_used_verifies_nothing(secret: str) -> None:
    headers = signed_by(STANDARD, STANDARD_KEY, PAID)
    public = signed_by(STANDARD, SECRET_KEY, PAID)["webhook-signature"]
    for text in (headers["webhook-signature"], public, "v1,", "v1a,", f"v1a,{'A' * 88}"):
        assert check(STANDARD, headers | {"webhook-signature": text}, PAID, secret) is FORGED


UNUSABLE = "the secret is not base64 after whsec_, or the body is not UTF-8"
WRONG_KEY = "the secret key is not base64 of 32 or 64 bytes after whsk_"
SIGNED = signed_by(STANDARD, STANDARD_KEY, PAID)


@pytest.mark.parametrize(
    ("secret", "body", "text"),
    [
        ("", PAID, "the secret is empty"),
        ("whsec_", PAID, UNUSABLE),
        ("whsec_A", PAID, UNUSABLE),
        (STANDARD_KEY, b"\xff", UNUSABLE),
        (PUBLIC_KEY, PAID, "a public key (whpk_) cannot sign: give its secret key (whsk_)"),
        ("whsk_AAAA", PAID, WRONG_KEY),
        (SECRET_KEY.replace("Xb", "X!b"), PAID, WRONG_KEY),
    ],
)
def test_a_secret_that_cannot_sign_is_refused(secret: str, body: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        signed_by(STANDARD, secret, body)


@pytest.mark.parametrize(
    ("missing", "use"),
    [
        ("standardwebhooks.webhooks", lambda: check(STANDARD, SIGNED)),
        ("nacl.exceptions", lambda: check(STANDARD, SIGNED, PAID, PUBLIC_KEY)),
        ("nacl.signing", lambda: signed_by(STANDARD, SECRET_KEY, PAID)),
    ],
)
def test_a_package_that_is_missing_is_named_with_where_it_belongs(
    monkeypatch: pytest.MonkeyPatch, missing: str, use: Callable[[], object]
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    text = f"'{missing}', which the extra `webhooks` .*: lock it in the requirements.txt of the fun"
    with pytest.raises(MissingExtra, match=text):
        use()


@each_profile
def test_an_empty_secret_verifies_nothing(profile: Profile) -> None:
    headers = signed_by(profile, STANDARD_KEY, PAID)
    template = profile.signed.replace("{timestamp}", str(SIGNED_AT)).replace("{id}", "msg_1")
    mac = HMAC(b"", hashes.SHA256())
    mac.update(template.encode().replace(b"{body}", PAID))
    made = mac.finalize()
    texts = {f"{profile.prefix}{made.hex()}", base64.b64encode(made).decode()}
    texts |= {f"t={SIGNED_AT},v1={made.hex()}", f"v1,{base64.b64encode(made).decode()}"}
    for text in texts:
        assert check(profile, headers | {profile.signature_header: text}, PAID, "") is FORGED


def test_a_signature_is_compared_as_a_whole_and_with_its_prefix() -> None:
    for profile in (GITHUB, SLACK):
        headers = signed_by(profile, STANDARD_KEY, PAID)
        header = headers[profile.signature_header]
        plain = header.removeprefix(profile.prefix)
        for text in (plain, header.upper(), f" {header}", header[:-2], header + "00", header[:32]):
            assert check(profile, headers | {profile.signature_header: text}) is FORGED
    for profile in (SHOPIFY, STANDARD):  # whose signatures are base64
        headers = signed_by(profile, STANDARD_KEY, PAID)
        header = headers[profile.signature_header]
        text = f"{header[:9]}!{header[9:]}"
        assert check(profile, headers | {profile.signature_header: text}) is FORGED


# The providers' own examples of signatures, and their packages.


@dataclass
class Example:
    """A signature that a provider publishes."""

    profile: Profile
    secret: str
    body: bytes
    headers: dict[str, str]
    now: int = 0


STANDARD_HEADERS = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
}
EXAMPLES = {
    # docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
    "github": Example(
        GITHUB,
        "It's a Secret to Everybody",
        b"Hello, World!",
        {
            "x-hub-signature-256": "sha256="
            "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        },
    ),
    # docs.slack.dev/authentication/verifying-requests-from-slack
    "slack": Example(
        SLACK,
        "8f742231b10e8888abcd99yyyzzz85a5",
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
        b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
        b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
        b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
        {
            "x-slack-request-timestamp": "1531420618",
            "x-slack-signature": "v0="
            "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        },
        1531420618,
    ),
    # github.com/standard-webhooks/standard-webhooks, the tests of its libraries
    "standard": Example(
        STANDARD,
        STANDARD_KEY,
        b'{"test": 2432232314}',
        {
            **STANDARD_HEADERS,
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        1614265330,
    ),
    # github.com/svix/svix-webhooks, test_asymmetric_key_signing; the specification shows it as well
    "standard-public": Example(
        STANDARD,
        PUBLIC_KEY,
        b'{"test": 2432232314}',
        {
            **STANDARD_HEADERS,
            "webhook-signature": "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJa"
            "A7AZdpXwVLPo3mNl8EM+m7TBAg==",
        },
        1614265330,
    ),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=[*EXAMPLES])
def test_the_example_of_a_provider_is_genuine(example: Example) -> None:
    verdict = partial(check, example.profile, now=example.now)
    assert verdict(example.headers, example.body, example.secret) is GENUINE
    assert verdict(example.headers, example.body + b" ", example.secret) is FORGED


@pytest.mark.parametrize("name", ["slack", "standard"])
def test_the_example_of_a_provider_is_signed_alike(name: str) -> None:
    found = EXAMPLES[name]
    webhook_id = found.headers.get("webhook-id", "")
    made = sign(found.profile, found.secret, found.body, webhook_id=webhook_id, now=found.now)
    assert made == found.headers


# The cache of secrets: how often it reads, and what counts while it cannot.


Version = str | bytes | Exception | None


def refused_with(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "secret-text"}}, "GetSecretValue")


class Manager:
    """Secrets Manager with one secret; `current` and `previous` are its versions or failures."""

    def __init__(self, current: Version = "one", previous: Version = None) -> None:
        self.versions = {"AWSCURRENT": current, "AWSPREVIOUS": previous}
        self.reads = 0

    def get_secret_value(self, *, SecretId: str, VersionStage: str) -> Mapping[str, Any]:  # noqa: N803
        assert SecretId == "arn"
        self.reads += VersionStage == "AWSCURRENT"
        match self.versions[VersionStage]:
            case None:
                raise refused_with("ResourceNotFoundException")
            case Exception() as error:
                raise error
            case bytes() as binary:
                return {"SecretBinary": binary}
            case text:
                return {"SecretString": text}


class Cached:
    """A cache over a manager, with a clock that stands still."""

    def __init__(self, *versions: Version) -> None:
        self.now = 1_800_000_000.0
        self.manager = Manager(*versions)
        self.cache = SecretCache(self.manager, {"stripe": "arn"}, lambda: self.now)

    def read(self, *, refreshed: bool = False) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(self.cache.of("stripe", refreshed=refreshed))  # type: ignore[return-value]

    def fail(self, error: Version = None) -> None:
        self.manager.versions["AWSCURRENT"] = error or refused_with("InternalServiceError")


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (("one",), (("one",), ())),
        (("new", "old"), (("new",), ("old",))),
        ((" a \r\n\n b\na\n", "c\n"), (("a", "b"), ("c",))),
        (("\ufeffa\n\ufeff b\u200b\n\u00a0\ufeff", "\ufeff"), (("a", "b"), ())),
        (
            (f"v1,{STANDARD_KEY}\n'v1a,{PUBLIC_KEY}'", f'"{STANDARD_KEY}"\n`{PREVIOUS}`,'),
            ((STANDARD_KEY, PUBLIC_KEY), (STANDARD_KEY, PREVIOUS)),
        ),
        (("v1,own", '"it\'s" secret"\n"quoted"'), (("v1,own",), ('"it\'s" secret"', '"quoted"'))),
        (("new", '\ufeff {"secret": "old"}'), (("new",), ())),
        (("new", ' \n{"secret": "old"}'), (("new",), ())),
        (("new", b"old"), (("new",), ())),
        (("new", '{"secret": "old"}'), (("new",), ())),
        (("new", " "), (("new",), ())),
    ],
)
def test_each_line_of_both_versions_is_a_secret(versions: Any, expected: Any) -> None:
    assert Cached(*versions).read() == expected


def test_secrets_are_read_again_when_they_are_old() -> None:
    cached = Cached()
    for seconds, reads in ((0, 1), (KEPT_SECONDS - 1, 1), (1, 2), (KEPT_SECONDS - 1, 2)):
        cached.now += seconds
        cached.read()
        assert cached.manager.reads == reads


def test_a_flood_of_forged_requests_reads_a_secret_every_five_seconds() -> None:
    service = Service()
    counts: list[str] = []

    def count(**_: Any) -> None:
        counts.append("read")

    hook = "before-call.secretsmanager.GetSecretValue"
    service.secretsmanager.meta.events.register(hook, count)
    for _ in range(60):
        assert service.post(stripe_request(stripe_body(), at=service.now, secret="other")) == 401
        service.now += 0.5
    service.secretsmanager.meta.events.unregister(hook, count)
    assert len(counts) == 2 * 30 / REFRESH_SECONDS  # two versions each time, for 30 seconds


def test_a_rotated_secret_counts_at_once_and_the_one_before_for_its_time() -> None:
    cached = Cached("old")
    cached.read()
    cached.manager.versions = {"AWSCURRENT": "new", "AWSPREVIOUS": "old"}
    cached.now += REFRESH_SECONDS
    assert cached.read() == (("old",), ())
    assert cached.read(refreshed=True) == (("new",), ("old",))


NO_SECRET = (
    "^the secret of endpoint 'stripe' has no signing secret: put it as plain text, one secret a "
    "line, and not as JSON or binary$"
)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (refused_with("AccessDeniedException"), "AccessDenied"),
        (EndpointConnectionError(endpoint_url="https://a"), "EndpointConnectionError"),
        *((version, NO_SECRET) for version in ("", None, "  \n", b"binary", '{"secret": "x"}')),
    ],
    ids=repr,
)
def test_without_a_secret_nothing_can_be_verified(version: Version, text: str) -> None:
    cached = Cached(version)
    for refreshed in (False, True):
        with pytest.raises(SecretsUnavailable, match=text) as error:
            cached.read(refreshed=refreshed)
    assert error.value.summary == f"SecretsUnavailable: {error.value}"
    assert "secret-text" not in error.value.summary
    assert cached.manager.reads == 1


@pytest.mark.parametrize(
    "text", ["whsec_", "whsec_A", SECRET_KEY, "whpk_AAAA", "MfKQ é", "whsec_a-b_"]
)
def test_an_endpoint_without_a_usable_secret_is_logged_once_and_its_secret_never(text: str) -> None:
    service = Service((Endpoint("standard", STANDARD), Endpoint("stripe", STRIPE)))
    for version in (f"other {text}", text):
        service.secretsmanager.put_secret_value(SecretId="standard", SecretString=version)
    for _ in range(3):
        assert (
            service.post(request("/standard", PAID, signed_by(STANDARD, STANDARD_KEY, PAID))) == 401
        )
        assert service.post(stripe_request(stripe_body(), at=service.now)) == 200
    [line] = map(json.loads, service.log.getvalue().splitlines())
    assert (line["level"], line["message"]) == ("WARNING", "no secret has a usable form")
    assert (line["endpoint"], line["profile"], line["secrets"]) == ("standard", "standard", 2)
    assert text not in json.dumps({**line, "remedy": ""})
    assert line["remedy"] == (
        "put the secret as plain text, as the provider shows it: whsec_ or whpk_ and base64, one "
        "secret a line"
    )


def test_one_usable_secret_of_either_version_is_enough() -> None:
    service = Service((Endpoint("standard", STANDARD),))
    for text in (f"whsec_A\n{STANDARD_KEY}", PUBLIC_KEY, STANDARD_KEY[6:], "whsec_A"):
        service.secretsmanager.put_secret_value(SecretId="standard", SecretString=text)
        service.now += KEPT_SECONDS
        service.post(request("/standard", PAID, {}))
    assert service.log.getvalue() == ""


def test_an_endpoint_without_a_secret_is_named() -> None:
    with pytest.raises(SecretsUnavailable, match="'other'"):
        Cached().cache.of("other")


def test_a_missing_previous_version_is_none_and_another_failure_is_no_secret() -> None:
    with pytest.raises(SecretsUnavailable, match="Throttling"):
        Cached("one", refused_with("ThrottlingException")).read()


def test_secrets_in_memory_count_while_they_cannot_be_read() -> None:
    cached = Cached("one")
    cached.read()
    cached.fail()
    cached.now += KEPT_SECONDS
    assert cached.read() == (("one",), ())
    cached.now += OUTAGE_SECONDS - 1
    assert cached.read() == (("one",), ())
    cached.now += 1
    with pytest.raises(SecretsUnavailable, match="InternalServiceError"):
        cached.read()


def test_secrets_in_memory_do_not_prove_a_forgery_while_they_cannot_be_read() -> None:
    cached = Cached("one")
    cached.read()
    cached.fail()
    cached.now += REFRESH_SECONDS - 1
    assert cached.read(refreshed=True) == (("one",), ())  # read a moment ago: they prove it
    cached.now += 1
    for _ in range(3):
        with pytest.raises(SecretsUnavailable):
            cached.read(refreshed=True)
    assert cached.manager.reads == 2


def test_a_failed_reading_is_tried_again_after_five_seconds() -> None:
    cached = Cached("one")
    cached.read()
    cached.fail()
    cached.now += KEPT_SECONDS
    for seconds, reads in ((0, 2), (REFRESH_SECONDS - 1, 2), (1, 3)):
        cached.now += seconds
        cached.read()
        assert cached.manager.reads == reads
    cached.fail("new")
    cached.now += REFRESH_SECONDS
    assert cached.read() == (("new",), ())


@pytest.mark.parametrize(("secret", "status"), [("old", 200), ("new", 503), ("forged", 503)])
def test_a_request_is_not_refused_for_good_while_its_secret_cannot_be_read(
    secret: str, status: int
) -> None:
    service = Service()
    service.secretsmanager.put_secret_value(SecretId="stripe", SecretString="old")
    service.post(stripe_request(b"{}", secret="old"))
    service.secretsmanager.put_secret_value(SecretId="stripe", SecretString="new")
    service.now += REFRESH_SECONDS
    with inject(service.secretsmanager, "GetSecretValue", *[never_sent()] * 9):
        assert service.post(stripe_request(stripe_body(), at=service.now, secret=secret)) == status


def test_nothing_shows_a_secret() -> None:
    cached = Cached("shown-one", "shown-two")
    secrets = cached.cache.of("stripe")
    for value in (secrets, cached.cache, *cached.cache._kept.values(), [secrets]):
        assert "shown" not in f"{value!r}{value}"
    assert Secrets(("a",)).previous == ()
