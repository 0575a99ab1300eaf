"""Faults of an endpoint and of its profile, each with its remedy. Standard library only."""

import re
from collections.abc import Iterator

from once.schema import EVENT_TYPE
from once.webhooks.endpoint import ENDPOINT_NAME, Endpoint
from once.webhooks.profile import MAX_REQUEST_BYTES, Encoding, Form, Profile

_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
"""A header's name (RFC 9110, `token`) in lower case, as requests are read."""

_PLACE = re.compile(r"header:(?P<header>.+)|body:[^.]+(\.[^.]+)*")
_FIELD = re.compile(r"\{([^{}]*)\}")
_FIELDS = {"body", "timestamp", "id"}
_STANDARD = "{id}.{timestamp}.{body}"


def endpoint_faults(endpoint: Endpoint) -> list[str]:
    """Return every fault of an endpoint and its profile, without the endpoint's name."""
    return [*_own_faults(endpoint), *profile_faults(endpoint.profile)]


def profile_faults(profile: Profile) -> list[str]:
    """Return every fault of a profile. Its name stands first, since endpoints can share it."""
    found = [
        *_name_faults(profile),
        *_place_faults(profile),
        *_signed_faults(profile),
        *_time_faults(profile),
        *_form_faults(profile),
        *_size_faults(profile),
    ]
    return [f"profile {profile.name}: {fault}" for fault in found]


def _own_faults(endpoint: Endpoint) -> Iterator[str]:
    if not ENDPOINT_NAME.fullmatch(endpoint.name):
        yield (
            f"{endpoint.name!r} is not a valid name, which is also the endpoint's path: use up to "
            "40 lower-case letters, digits and hyphens, beginning with a letter"
        )
    if not 0 <= endpoint.body_bytes <= MAX_REQUEST_BYTES:
        yield _too_large(endpoint.body_bytes)
    if endpoint.trusts_id and (not endpoint.profile.id or endpoint.profile.has_signed_id):
        yield "`trusts_id` has no effect without an id that is not signed: leave it out"
    yield from _type_faults(endpoint)


def _type_faults(endpoint: Endpoint) -> Iterator[str]:
    if endpoint.types and not endpoint.profile.type:
        yield "its profile names no place for the type, so its webhooks have none: set `type` there"
    for kind in sorted({each for each in endpoint.types if endpoint.types.count(each) > 1}):
        yield f"the type {kind!r} is listed twice: list each type once"
    for kind in endpoint.types:
        event_type = endpoint.event_type(kind)
        if not (EVENT_TYPE.fullmatch(kind) and EVENT_TYPE.fullmatch(event_type)):
            yield (
                f"{event_type!r} is not a valid event type: a queue selects types literally, "
                "without commas, asterisks, or spaces at the ends"
            )


def _name_faults(profile: Profile) -> Iterator[str]:
    if not ENDPOINT_NAME.fullmatch(profile.name):
        yield (
            "its name is the first part of its event types: use up to 40 lower-case letters, "
            "digits and hyphens, beginning with a letter"
        )
    headers = (profile.signature_header, *filter(None, [profile.timestamp_header]))
    for header in headers:
        if not _HEADER.fullmatch(header):
            yield f"{header!r} is not a header name: write it in lower case, without a colon"


def _place_faults(profile: Profile) -> Iterator[str]:
    for place in filter(None, (profile.id, *profile.type)):
        found = _PLACE.fullmatch(place)
        if not found or (found["header"] and not _HEADER.fullmatch(found["header"])):
            yield (
                f"{place!r} is not a place: write `header:<name in lower case>`, or `body:<path>` "
                "with dots for nesting"
            )
    if "" in profile.type:
        yield "an empty text is not a place for the type: leave it out"
    if profile.type_in_key and profile.has_signed_type:
        yield "`type_in_key` has no effect without a type that is in a header: leave it out"


def _signed_faults(profile: Profile) -> Iterator[str]:
    fields = _FIELD.findall(profile.signed)
    if fields.count("body") != 1:
        yield "`signed` needs {body} once: a signature that leaves the body out proves nothing"
    if {*fields} - _FIELDS or "{" in _FIELD.sub("", profile.signed).replace("}", "{"):
        yield "`signed` is made of {body}, {timestamp}, {id} and text without braces"
    if max(fields.count("timestamp"), fields.count("id")) > 1:
        yield "`signed` has a field twice: name each once"
    if "id" in fields and not profile.id.startswith("header:"):
        yield "`signed` has {id}, which is the value of a header: set `id` to `header:<name>`"
    if re.search(r"\}\{id\}|\{id\}\{", profile.signed):
        yield "`signed` joins {id} to another field: put a separator between them"


def _time_faults(profile: Profile) -> Iterator[str]:
    is_signed = "{timestamp}" in profile.signed
    in_pairs = profile.form is Form.PAIRS
    if profile.tolerance_seconds < 0:
        yield "`tolerance_seconds` counts in both directions: it cannot be negative"
    if profile.tolerance_seconds and not is_signed:
        yield "`tolerance_seconds` without {timestamp} in `signed`: anybody could change that time"
    if is_signed and not profile.tolerance_seconds:
        yield "`signed` has {timestamp} without a tolerance: set `tolerance_seconds`, such as 300"
    if is_signed and not in_pairs and not profile.timestamp_header:
        yield "`signed` has {timestamp}, but no header contains it: set `timestamp_header`"
    if profile.timestamp_header and (in_pairs or not is_signed):
        yield "`timestamp_header` is not read: the time is in the pairs, or not in `signed`"


def _form_faults(profile: Profile) -> Iterator[str]:
    if profile.form is Form.PAIRS and not profile.prefix:
        yield "the form `pairs` needs the name of the signature: set `prefix`, such as v1"
    if profile.form is Form.STANDARD and (
        profile.signed != _STANDARD or profile.encoding is not Encoding.BASE64
    ):
        yield f"the form `standard` signs {_STANDARD} in base64: use another form for other schemes"
    if profile.challenge is not None and not all(profile.challenge):
        yield "`challenge` needs the value of the body's `type`, and the field to return"


def _size_faults(profile: Profile) -> Iterator[str]:
    if profile.retry_seconds <= 0:
        yield "`retry_seconds` must be positive: set the time for which the provider repeats"
    if profile.answer_seconds <= 0:
        yield "`answer_seconds` must be positive: set the time that the provider waits"
    if not 0 < profile.body_bytes <= MAX_REQUEST_BYTES:
        yield _too_large(profile.body_bytes)


def _too_large(size: int) -> str:
    return (
        f"`body_bytes` is {size}: Lambda takes requests of 6 MB, in which a body may be base64; "
        f"set at most {MAX_REQUEST_BYTES}"
    )
