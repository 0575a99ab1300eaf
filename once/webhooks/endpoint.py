"""Endpoint: a path of the ingress, for one account at one provider, and its faults.

Standard library only: synthesis reads endpoints as well.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from once.environment import register_type
from once.schema import EVENT_TYPE
from once.webhooks.profile import (
    ENDPOINT_NAME,
    MAX_REQUEST_BYTES,
    PROFILES,
    Encoding,
    Form,
    Profile,
    profile_faults,
    size_fault,
)

SOURCE_PREFIX = "/webhooks/"
"""Prefix of the `source` that stands in the dedup key of a webhook."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path that one account of a provider sends its webhooks to.

    The endpoint tells whose webhook it is: a payload is never asked.

    Attributes:
        name: the path; `stripe` takes requests to `/stripe`.
        profile: the provider's rules.
        types: the provider's types that are handed on as events. Webhooks of other types are
            captured only.
        prefix: the first part of the types of its events; by default the profile's name.
        body_bytes: the largest body that is read; 0 for the profile's.
        trusts_id: whether an id that is not signed tells two webhooks with equal bodies apart. By
            default the body alone does: otherwise anybody who has seen a request could send it
            again under another id.
    """

    name: str
    profile: Profile
    types: tuple[str, ...] = ()
    prefix: str = ""
    body_bytes: int = 0
    trusts_id: bool = False

    @property
    def source(self) -> str:
        """The `source` in the dedup keys of its webhooks."""
        return f"{SOURCE_PREFIX}{self.name}"

    @property
    def limit(self) -> int:
        """The largest body that is read, in bytes."""
        return self.body_bytes or self.profile.body_bytes

    @property
    def event_types(self) -> tuple[str, ...]:
        """The types of the events that it hands on."""
        return tuple(map(self.event_type, self.types))

    def event_type(self, webhook_type: str) -> str:
        """Return the type of the event for a webhook's type, such as `stripe.charge.refunded`."""
        return f"{self.prefix or self.profile.name}.{webhook_type}"

    def to_builtins(self) -> dict[str, Any]:
        """Return the values from which `of_builtins` makes an equal endpoint."""
        given = {name: value for name, value in asdict(self).items() if value}
        known = PROFILES.get(self.profile.name)
        return given | {"profile": self.profile.name if known == self.profile else given["profile"]}

    @classmethod
    def of_builtins(cls, given: Mapping[str, Any]) -> Self:
        """Read what `to_builtins` returned, also after it was JSON.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        profile = given["profile"]
        known = PROFILES[profile] if isinstance(profile, str) else _profile(profile)
        return cls(**{**_tuples(given), "profile": known})


def _profile(given: Mapping[str, Any]) -> Profile:
    forms = {"form": Form(given["form"]), "encoding": Encoding(given["encoding"])}
    return Profile(**{**_tuples(given), **forms})


def _tuples(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}


def _read(text: str) -> tuple[Endpoint, ...]:
    return tuple(map(Endpoint.of_builtins, json.loads(text)))


def _written(endpoints: tuple[Endpoint, ...]) -> str:
    return json.dumps([each.to_builtins() for each in endpoints], separators=(",", ":"))


register_type(tuple[Endpoint, ...], _read, _written)


def endpoint_faults(endpoint: Endpoint) -> list[str]:
    """Return every fault of an endpoint and its profile, without the endpoint's name."""
    return [*_own_faults(endpoint), *profile_faults(endpoint.profile)]


def _own_faults(endpoint: Endpoint) -> Iterator[str]:
    if not ENDPOINT_NAME.fullmatch(endpoint.name):
        yield (
            f"{endpoint.name!r} is not a valid name, which is also the endpoint's path: use up to "
            "40 lower-case letters, digits and hyphens, beginning with a letter"
        )
    if not 0 <= endpoint.body_bytes <= MAX_REQUEST_BYTES:
        yield size_fault(endpoint.body_bytes)
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
