"""Signatures of Standard Webhooks, by the packages `standardwebhooks` (HMAC) and `pynacl`.

Neither is imported before a secret needs it. `standardwebhooks` takes one secret and `v1` only, and
raises several errors for malformed input; here each of them is a signature that does not match.
"""

import base64
from datetime import UTC, datetime
from hmac import compare_digest

from once.extras import extra
from once.webhooks._signed_request import SignedRequest

PUBLIC_KEY = "whpk_"
"""Prefix of a public key. With one, a provider's signatures are verified but not made."""

SECRET_KEY = "whsk_"  # noqa: S105
"""Prefix of the secret key that belongs to a public one: 32 bytes of seed, and maybe the other."""

_TEMPLATE = "{id}.{timestamp}.{body}"
_SEED_BYTES = 32
_REMEDY = (
    "lock it in the requirements.txt of the function's folder (docs/webhooks.md); on a "
    "workstation, run pip install 'once-consumer[webhooks]'"
)


def is_signed(secret: str, request: SignedRequest) -> bool:
    """Return whether one of the signatures was made with a secret or with a public key's owner.

    A secret that cannot be decoded signs nothing.

    Raises:
        MissingExtra: the function's package lacks the package for this kind of secret.
    """
    if not request.id or str(request.seconds) != request.timestamp:
        return False
    if secret.startswith(PUBLIC_KEY):
        return _is_signed_by_owner(secret, request)
    expected = _hmac(secret, request)
    if expected is None:
        return False
    return True in [compare_digest(expected, each) for each in request.signatures]


def signature_of(secret: str, request: SignedRequest) -> str:
    """Return the value of the header `webhook-signature`.

    Raises:
        ValueError: the secret or the body cannot be used; nothing of them is in the text.
    """
    if secret.startswith(PUBLIC_KEY):
        raise ValueError("a public key (whpk_) cannot sign: give its secret key (whsk_)")
    if secret.startswith(SECRET_KEY):
        return f"v1a,{_base64(_signed_by_owner(secret, request))}"
    signature = _hmac(secret, request)
    if signature is None:
        raise ValueError("the secret is not base64 after whsec_, or the body is not UTF-8")
    return f"v1,{_base64(signature)}"


def _hmac(secret: str, request: SignedRequest) -> bytes | None:
    """Return the HMAC; None if the secret or the content cannot be used."""
    with extra("webhooks", remedy=_REMEDY):
        from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

    try:
        at = datetime.fromtimestamp(request.seconds or 0, UTC)
        text = Webhook(secret).sign(request.id, at, request.body.decode())
    except (ValueError, EmptyWebhookSecretError):
        return None
    return base64.b64decode(text.partition(",")[2])


def _is_signed_by_owner(key: str, request: SignedRequest) -> bool:
    with extra("webhooks", remedy=_REMEDY):
        from nacl.exceptions import CryptoError
        from nacl.signing import VerifyKey

    try:
        public = VerifyKey(base64.b64decode(key.removeprefix(PUBLIC_KEY), validate=True))
    except ValueError:
        return False
    content = request.content(_TEMPLATE)

    def is_valid(signature: bytes) -> bool:
        try:
            public.verify(content, signature)
        except CryptoError:
            return False
        return True

    return True in [is_valid(each) for each in request.public_signatures]


def _signed_by_owner(key: str, request: SignedRequest) -> bytes:
    with extra("webhooks", remedy=_REMEDY):
        from nacl.signing import SigningKey

    try:
        seed = base64.b64decode(key.removeprefix(SECRET_KEY), validate=True)[:_SEED_BYTES]
        owner = SigningKey(seed)
    except ValueError:
        raise ValueError("the secret key is not base64 of 32 or 64 bytes after whsk_") from None
    return owner.sign(request.content(_TEMPLATE)).signature


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
