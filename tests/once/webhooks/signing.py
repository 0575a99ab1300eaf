"""Secrets, and requests that are verified with them."""

import json
from functools import partial
from typing import Any

from once.webhooks.endpoint import PROFILES, Profile, hmac_profile
from once.webhooks.signature import Verdict, sign, verify
from once.webhooks.webhook import Request

GENUINE, FORGED, STALE = Verdict
NOW = 1_800_000_000
BODY = json.dumps({"id": "evt_1", "type": "paid", "text": "é {id} {0}"}).encode()
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PREVIOUS = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
SECRET_KEY = (
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
)
PUBLIC_KEY = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
GENERIC = hmac_profile(
    "acme",
    signature_header="x-acme",
    signed="{id}|{timestamp}|{body}",
    id="header:x-acme-id",
    timestamp_header="x-acme-time",
    retry_seconds=60,
)
ALL = [*PROFILES.values(), GENERIC]
signed_by = partial(sign, webhook_id="msg_1", now=NOW)


def check(
    profile: Profile, headers: Any, body: bytes = BODY, *secrets: str, now: float = NOW
) -> Verdict:
    return verify(profile, secrets or (SECRET,), Request("POST", "/a", headers, body), now)
