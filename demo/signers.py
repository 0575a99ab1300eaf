"""Signers: the headers of a webhook, as each provider signs it.

With HMAC from the standard library: they share no code with the library, which would otherwise
verify its own mistakes.
"""

import base64
import hmac
import re
from dataclasses import dataclass

SECRET_PREFIX = "whsec_"  # noqa: S105


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """A provider's form of signatures: over the body, and the headers that `before` names.

    Attributes:
        signature, id, type, time: the names of the headers; empty where there is none.
        prefix: the text before a signature, with `{time}`.
        before: what is signed before the body, with `{time}` and `{id}`.
        is_base64: whether a signature is base64, and not hexadecimal.
        decodes_secret: whether the key is what the secret holds in base64.
    """

    signature: str
    id: str = ""
    type: str = ""
    time: str = ""
    prefix: str = ""
    before: str = ""
    is_base64: bool = False
    decodes_secret: bool = False

    @property
    def signs_time(self) -> bool:
        """Whether the time is signed."""
        return "{time}" in self.before

    def content(self, body: bytes, webhook_id: str, time: str) -> bytes:
        """Return what is signed of a request."""
        values = {"id": webhook_id, "time": time}
        before = re.sub(r"\{(id|time)\}", lambda found: values[found[1]], self.before)
        return before.encode("utf-8", "replace") + body

    def mac(self, secret: str, content: bytes) -> str:
        """Return the signature of a content as text."""
        encoded = secret.removeprefix(SECRET_PREFIX)
        key = base64.b64decode(encoded) if self.decodes_secret else secret.encode()
        digest = hmac.digest(key, content, "sha256")
        return base64.b64encode(digest).decode() if self.is_base64 else digest.hex()

    def headers(
        self, secret: str, body: bytes, at: float, *, webhook_id: str = "", kind: str = ""
    ) -> dict[str, str]:
        """Return the headers of a request that is signed at a time, in seconds since the epoch."""
        time = str(int(at))
        signature = self.mac(secret, self.content(body, webhook_id, time))
        found = {self.signature: self.prefix.replace("{time}", time) + signature}
        found |= {self.id: webhook_id, self.type: kind, self.time: time}
        return {name: value for name, value in found.items() if name}


SIGNERS = {
    "stripe": Signer(signature="stripe-signature", prefix="t={time},v1=", before="{time}."),
    "github": Signer(
        signature="x-hub-signature-256",
        prefix="sha256=",
        id="x-github-delivery",
        type="x-github-event",
    ),
    "shopify": Signer(
        signature="x-shopify-hmac-sha256",
        id="x-shopify-webhook-id",
        type="x-shopify-topic",
        is_base64=True,
    ),
    "standard": Signer(
        signature="webhook-signature",
        prefix="v1,",
        before="{id}.{time}.",
        id="webhook-id",
        time="webhook-timestamp",
        is_base64=True,
        decodes_secret=True,
    ),
    "slack": Signer(
        signature="x-slack-signature",
        prefix="v0=",
        before="v0:{time}:",
        time="x-slack-request-timestamp",
    ),
}
