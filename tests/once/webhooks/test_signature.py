"""Signatures: which requests are genuine, and that nothing a sender writes raises an error."""

import base64
import json
import subprocess
import sys
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.hmac import HMAC
from hypothesis import given
from hypothesis import strategies as st

from once.webhooks.endpoint import GITHUB, SLACK, STANDARD, STRIPE, Profile
from once.webhooks.signature import sign, verify
from once.webhooks.webhook import Request
from tests.once.support import quick
from tests.once.webhooks.signing import (
    ALL,
    BODY,
    FORGED,
    GENERIC,
    GENUINE,
    NOW,
    PREVIOUS,
    PUBLIC_KEY,
    SECRET,
    SECRET_KEY,
    STALE,
    check,
    signed_by,
)

TIMED = [each for each in ALL if each.tolerance_seconds]
each_profile = pytest.mark.parametrize("profile", ALL, ids=lambda each: each.name)


@each_profile
def test_what_is_signed_is_genuine_and_each_change_is_forged(profile: Profile) -> None:
    headers = signed_by(profile, SECRET, BODY)
    assert check(profile, headers) is GENUINE
    # W1: the same JSON, written again
    assert check(profile, headers, json.dumps(json.loads(BODY), indent=1).encode()) is FORGED
    assert check(profile, headers, BODY, PREVIOUS) is FORGED
    assert check(profile, {}) is FORGED
    assert check(profile, headers, BODY, "") is FORGED
    assert verify(profile, (), Request("POST", "/a", headers, BODY), NOW) is FORGED


@each_profile
def test_the_current_and_the_previous_secret_count_during_a_rotation(profile: Profile) -> None:
    for secret in (SECRET, PREVIOUS):  # W4
        headers = signed_by(profile, secret, BODY)
        assert check(profile, headers, BODY, SECRET, PREVIOUS) is GENUINE
        assert check(profile, headers, BODY, "no base64 é", "", PREVIOUS, SECRET) is GENUINE


def test_one_of_several_signatures_is_enough() -> None:
    one, other = (signed_by(STRIPE, each, BODY)["stripe-signature"] for each in (PREVIOUS, SECRET))
    both = f"{one},{other.partition(',')[2]},v0={'0' * 64}"
    assert check(STRIPE, {"stripe-signature": both}) is GENUINE
    headers = signed_by(STANDARD, SECRET, BODY)
    public = signed_by(STANDARD, SECRET_KEY, BODY)["webhook-signature"]
    headers["webhook-signature"] = f"v1,AAAA v2,x {public} {headers['webhook-signature']} v1a,x"
    assert check(STANDARD, headers) is GENUINE
    assert check(STANDARD, headers, BODY, PUBLIC_KEY) is GENUINE


def test_signatures_of_another_version_do_not_count() -> None:
    header = signed_by(STRIPE, SECRET, BODY)["stripe-signature"].replace("v1=", "v0=")
    assert check(STRIPE, {"stripe-signature": header}) is FORGED
    public = signed_by(STANDARD, SECRET_KEY, BODY)
    public["webhook-signature"] = public["webhook-signature"].replace("v1a,", "v1,")
    assert check(STANDARD, public, BODY, PUBLIC_KEY) is FORGED
    for version in ("v2,", "v1a,", "", "V1,"):
        headers = signed_by(STANDARD, SECRET, BODY)
        headers["webhook-signature"] = headers["webhook-signature"].replace("v1,", version)
        assert check(STANDARD, headers) is FORGED


@pytest.mark.parametrize("profile", TIMED, ids=lambda each: each.name)
def test_a_time_is_stale_on_both_sides_of_the_tolerance(profile: Profile) -> None:
    headers = signed_by(profile, SECRET, BODY)  # W3
    for offset, expected in ((300, GENUINE), (301, STALE)):
        for now in (NOW + offset, NOW - offset):
            assert check(profile, headers, now=now) is expected
    assert check(profile, headers, BODY, PREVIOUS, now=NOW + 301) is FORGED


def test_a_header_with_many_signatures_is_forged() -> None:
    header = signed_by(STRIPE, SECRET, BODY)["stripe-signature"]
    for decoys, expected in ((15, GENUINE), (16, FORGED)):
        assert check(STRIPE, {"stripe-signature": header + ",v1=00" * decoys}) is expected


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
    headers = signed_by(profile, SECRET, BODY)
    changed = {n: v.replace(str(NOW), text) for n, v in headers.items()}
    assert check(profile, changed) is FORGED


def test_a_signed_time_that_is_no_number_is_stale() -> None:
    headers = {"x-acme-id": "a", "x-acme-time": "١٨", "x-acme": ""}
    mac = HMAC(SECRET.encode(), hashes.SHA256())
    mac.update("a|١٨|".encode() + BODY)
    assert check(GENERIC, headers | {"x-acme": mac.finalize().hex()}) is STALE


def test_a_time_in_other_words_is_forged_in_standard_webhooks() -> None:
    headers = signed_by(STANDARD, SECRET, BODY)
    assert check(STANDARD, headers | {"webhook-timestamp": f"0{NOW}"}) is FORGED


@pytest.mark.parametrize("webhook_id", ["{body}", "{0}", "{id.__class__}", "%s", "}{", "a.b", "é"])
def test_an_id_is_never_a_template(webhook_id: str) -> None:
    for profile in (STANDARD, GENERIC):
        headers = sign(profile, SECRET, BODY, webhook_id=webhook_id, now=NOW)
        assert check(profile, headers) is GENUINE
        name = profile.id.removeprefix("header:")
        assert check(profile, headers | {name: f"{webhook_id}x"}) is FORGED


def test_an_id_is_required_where_it_is_signed() -> None:
    headers = sign(STANDARD, SECRET, BODY, webhook_id="", now=NOW)
    assert check(STANDARD, headers) is FORGED


def test_a_body_that_is_no_utf8_is_forged_or_genuine_but_raises_nothing() -> None:
    for profile in (STRIPE, GITHUB):
        assert check(profile, signed_by(profile, SECRET, b"\xff\xfe"), b"\xff\xfe") is GENUINE
    assert check(STANDARD, signed_by(STANDARD, SECRET, BODY), b"\xff\xfe") is FORGED
    public = signed_by(STANDARD, SECRET_KEY, b"\xff\xfe")
    assert check(STANDARD, public, b"\xff\xfe", PUBLIC_KEY) is GENUINE


@pytest.mark.parametrize(
    "secret",
    ["whsec_", "whsec_é", "whsec_A", "whpk_", "whpk_AAAA", "whpk_é", PUBLIC_KEY[:-4], "whsk_AAAA"],
)
def test_a_secret_that_cannot_be_used_verifies_nothing(secret: str) -> None:
    headers = signed_by(STANDARD, SECRET, BODY)
    public = signed_by(STANDARD, SECRET_KEY, BODY)["webhook-signature"]
    for text in (headers["webhook-signature"], public, "v1,", "v1a,", f"v1a,{'A' * 88}"):
        assert check(STANDARD, headers | {"webhook-signature": text}, BODY, secret) is FORGED


@pytest.mark.parametrize(
    ("secret", "body", "text"),
    [
        ("", BODY, "is empty"),
        ("whsec_", BODY, "not base64"),
        ("whsec_A", BODY, "not base64"),
        (SECRET, b"\xff", "not UTF-8"),
        (PUBLIC_KEY, BODY, "cannot sign"),
        ("whsk_AAAA", BODY, "32 or 64 bytes"),
        (SECRET_KEY.replace("Xb", "X!b"), BODY, "32 or 64 bytes"),
    ],
)
def test_a_secret_that_cannot_sign_is_refused(secret: str, body: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        signed_by(STANDARD, secret, body)


HEADERS = st.text() | st.builds(
    "".join,
    st.lists(st.sampled_from(["t=", "v1=", "v1,", "v1a,", "v0=", "sha256=", ",", " ", "0"])),
)


@quick
@given(st.sampled_from(ALL), HEADERS, HEADERS, HEADERS, st.binary(max_size=64))
def test_no_header_makes_a_forged_request_genuine(
    profile: Profile, signature: str, timestamp: str, webhook_id: str, body: bytes
) -> None:
    headers = {
        profile.signature_header: signature,
        profile.timestamp_header: timestamp,
        profile.id.removeprefix("header:"): webhook_id,
    }
    assert check(profile, headers, body, SECRET, PUBLIC_KEY) is FORGED


@each_profile
def test_an_empty_secret_verifies_nothing(profile: Profile) -> None:
    headers = signed_by(profile, SECRET, BODY)
    template = profile.signed.replace("{timestamp}", str(NOW)).replace("{id}", "msg_1")
    mac = HMAC(b"", hashes.SHA256())
    mac.update(template.encode().replace(b"{body}", BODY))
    made = mac.finalize()
    texts = {f"{profile.prefix}{made.hex()}", base64.b64encode(made).decode()}
    texts |= {f"t={NOW},v1={made.hex()}", f"v1,{base64.b64encode(made).decode()}"}
    for text in texts:
        assert check(profile, headers | {profile.signature_header: text}, BODY, "") is FORGED


def test_the_prefix_of_a_signature_is_required() -> None:
    for profile in (GITHUB, SLACK):
        headers = signed_by(profile, SECRET, BODY)
        header = headers[profile.signature_header]
        for text in (header.removeprefix(profile.prefix), header.upper(), f" {header}"):
            assert check(profile, headers | {profile.signature_header: text}) is FORGED


def test_a_prefix_of_a_signature_is_forged() -> None:
    plain = replace(GITHUB, prefix="")
    [header] = [v for n, v in signed_by(plain, SECRET, BODY).items() if "signature" in n]
    for text in (header[:-2], header + "00", "", header[:32]):
        assert check(plain, {plain.signature_header: text}) is FORGED


def test_the_packages_of_standard_webhooks_are_imported_by_its_secrets_only() -> None:
    code = (
        "import sys, once.webhooks.ingress, once.webhooks.signature as s;"
        "import once.webhooks.endpoint as p;"
        "s.sign(p.STRIPE, 'a', b'', webhook_id='', now=0);"
        "assert not {'nacl', 'standardwebhooks'} & {*sys.modules};"
        f"s.sign(p.STANDARD, '{SECRET}', b'', webhook_id='a', now=0);"
        "assert 'nacl' not in sys.modules and 'standardwebhooks' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
