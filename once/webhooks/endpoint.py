"""Endpoint: a path of the ingress, for one account at one provider. Standard library only."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from once.environment import register_type
from once.webhooks.profile import PROFILES, Encoding, Form, Profile

ENDPOINT_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
"""An endpoint's name is its path, and part of the dedup keys of its webhooks."""

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
