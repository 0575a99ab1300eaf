"""Profiles for providers that sign with HMAC-SHA256 and that `profile` does not have."""

from once.webhooks.endpoint_faults import profile_faults
from once.webhooks.profile import MINUTE, Encoding, Form, Profile


def hmac_profile(
    name: str,
    *,
    signature_header: str,
    retry_seconds: int,
    prefix: str = "",
    encoding: Encoding = Encoding.HEX,
    signed: str = "{body}",
    timestamp_header: str = "",
    tolerance_seconds: int | None = None,
    id: str = "",  # noqa: A002
    type: tuple[str, ...] = (),  # noqa: A002
    type_in_key: bool = False,
    volatile: tuple[str, ...] = (),
    form_field: str = "",
    answer_seconds: int = 10,
    body_bytes: int = 128 * 1024,
) -> Profile:
    """Return the profile of a provider with one HMAC-SHA256 in one header.

    Args:
        name: the provider.
        signature_header: the header with the signature, such as `X-Signature`.
        retry_seconds: the longest time after which the provider sends a webhook again.
        prefix: the text before the signature, such as `sha256=`.
        encoding: the encoding of the signature.
        signed: what is signed, made of `{body}`, `{timestamp}` and `{id}`.
        timestamp_header: the header with the signed time, in seconds since the epoch.
        tolerance_seconds: the most that the time may differ from the clock; five minutes if a time
            is signed.
        id: the place of the webhook's id; see `Profile`. Without one, the body is the identity.
        type: the places of the webhook's type.
        type_in_key: whether the provider sends equal bodies as webhooks of several types, and names
            the type in a header.
        volatile: top-level fields of the body that may differ between two deliveries.
        form_field: the field of a form that holds the JSON.
        answer_seconds: the time after which the provider gives up waiting for an answer.
        body_bytes: the largest body that is read.

    Raises:
        ValueError: the rules contradict each other; each fault is a line of the text.
    """
    if tolerance_seconds is None:
        tolerance_seconds = 5 * MINUTE if "{timestamp}" in signed else 0
    profile = Profile(
        name=name,
        signature_header=signature_header.lower(),
        signed=signed,
        form=Form.PLAIN,
        prefix=prefix,
        encoding=encoding,
        timestamp_header=timestamp_header.lower(),
        tolerance_seconds=tolerance_seconds,
        id=_lower(id),
        type=tuple(map(_lower, type)),
        type_in_key=type_in_key,
        volatile=volatile,
        form_field=form_field,
        retry_seconds=retry_seconds,
        answer_seconds=answer_seconds,
        body_bytes=body_bytes,
    )
    if faults := profile_faults(profile):
        raise ValueError("\n".join(faults))
    return profile


def _lower(place: str) -> str:
    """Return a place with a header's name in lower case; paths keep their case."""
    return place.lower() if place.lower().startswith("header:") else place
