"""Scope: the principal whose key a request has. Two principals may choose the same key."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from once.runtime.lambda_http import authorizer_of, claims_of, iam_of

RULES = ("claim", "authorizer", "iam", "role", "public", "by")
"""Names of the rules; the first part of a scope's text."""

_REMEDY = (
    "give Scope.claim('sub'), Scope.authorizer('tenant'), Scope.iam(), Scope.role() or, if there "
    "is no authentication, Scope.public()"
)
_ROLE = "AROA"
"""Beginning of the id of an IAM role; the ids of users begin differently."""


class Scope(Struct, frozen=True):
    """The rule that finds the scope of an HTTP request: `api.http(…, scope=Scope.claim("sub"))`.

    The text of a scope begins with the rule, so that the values of two rules are never the same
    scope.

    Attributes:
        rule: one of `RULES`, each the name of a constructor below.
        names: the arguments of that constructor.
        function: the one of `by`.
    """

    rule: str
    names: tuple[str, ...] = ()
    function: Callable[[Mapping[str, Any]], str | None] | None = None

    @classmethod
    def claim(cls, *names: str) -> "Scope":
        """The values of claims of the JWT that the API has verified, such as `sub`."""
        return cls("claim", names)

    @classmethod
    def authorizer(cls, *names: str) -> "Scope":
        """The values of fields that a Lambda authorizer has returned, such as a tenant."""
        return cls("authorizer", names)

    @classmethod
    def iam(cls) -> "Scope":
        """The IAM user, or role and session, or Cognito identity, that has signed the request."""
        return cls("iam")

    @classmethod
    def role(cls) -> "Scope":
        """The same without the session: one scope for all instances of a program with a role."""
        return cls("role")

    @classmethod
    def public(cls) -> "Scope":
        """One scope for all: whoever knows a key, and the content sent with it, gets its answer."""
        return cls("public")

    @classmethod
    def by(cls, function: Callable[[Mapping[str, Any]], str | None]) -> "Scope":
        """The text that a function returns for Lambda's event, or None for an unknown sender."""
        return cls("by", (), function)

    def of(self, event: Mapping[str, Any]) -> str | None:
        """Return the scope of a request, for `Commands.run` too; None if it has none."""
        values: list[Any]
        match self.rule:
            case "claim" | "authorizer":
                found = claims_of(event) if self.rule == "claim" else authorizer_of(event)
                values = [each for name in self.names for each in (name, found.get(name))]
            case "iam" | "role":
                user, cognito = iam_of(event)
                if self.rule == "role" and user.startswith(_ROLE):
                    user = user.partition(":")[0]
                values = [user, *([cognito] if cognito else [])]
            case "by":
                values = [self.function(event)] if self.function else [None]
            case _:
                values = []
        if not all(isinstance(each, str | int) and str(each).strip() for each in values):
            return None
        try:
            return msgspec.json.encode([self.rule, *values]).decode()
        except ValueError:  # a lone surrogate
            return None


def scope_faults(scope: Any) -> Iterator[str]:
    """Yield the mistakes in a declaration, each with its remedy."""
    if not isinstance(scope, Scope) or scope.rule not in RULES:
        yield f"http() has no scope, so that two clients with one key would share it: {_REMEDY}"
    elif scope.rule in ("claim", "authorizer") and not (
        scope.names and all(isinstance(name, str) and name for name in scope.names)
    ):
        yield f"Scope.{scope.rule}() names nothing, and would be the same for all: {_REMEDY}"
    elif scope.rule == "by" and not callable(scope.function):
        yield f"Scope.by() has no function that returns the scope: {_REMEDY}"
