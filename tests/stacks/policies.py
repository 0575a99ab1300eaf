"""An evaluator of IAM policies, with the operators that this project uses.

An explicit denial wins, then any permission; without a permission a request is denied. An unknown
operator or form is an error.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.stacks.cloud import Json, listed

Context = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Request:
    """A request: an action on a resource, and its condition keys, each with all its values."""

    action: str
    resource: str
    context: Context = field(default_factory=dict)


def allows(request: Request, identity: Sequence[Json], resource: Sequence[Json] = ()) -> bool:
    """Tell whether a principal with these statements may make a request.

    Args:
        request: the request; its principal's ARN is in the context.
        identity: the statements of the principal's own policies.
        resource: the statements of the resource's policy that name every principal.
    """
    matching = [s for s in (*identity, *resource) if _matches(s, request)]
    effects = {statement["Effect"] for statement in matching}
    return "Deny" not in effects and "Allow" in effects


def _matches(statement: Json, request: Request) -> bool:
    if statement.get("Principal", "*") not in ("*", {"AWS": "*"}):
        raise ValueError(f"unknown principal: {statement['Principal']}")
    return (
        any(_like(request.action.lower(), action.lower()) for action in listed(statement["Action"]))
        and any(_like(request.resource, each) for each in listed(statement["Resource"]))
        and all(
            _holds(operator, key, listed(values), request.context)
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
    )


def _holds(operator: str, key: str, wanted: Sequence[str], context: Context) -> bool:
    if operator == "Null":
        return [str(key not in context).lower()] == list(wanted)
    quantifier, _, name = operator.rpartition(":")
    test, negated = _OPERATORS[name.removesuffix("IfExists")]
    found = context.get(key, ())
    if not found and name.endswith("IfExists"):
        return True

    def one(value: str) -> bool:
        hit = any(test(value, each) for each in wanted)
        return hit is not negated

    match quantifier:
        case "ForAllValues":  # also true of no value at all
            return all(map(one, found))
        case "ForAnyValue":
            return any(map(one, found))
        case "":
            return one(found[0]) if found else negated
    raise ValueError(f"unknown quantifier: {operator}")


def _like(text: str, pattern: str) -> bool:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _equal(text: str, other: str) -> bool:
    return text == other


_OPERATORS: dict[str, tuple[Callable[[str, str], bool], bool]] = {
    "StringEquals": (_equal, False),
    "StringLike": (_like, False),
    "Bool": (_equal, False),
    "ArnNotEquals": (_like, True),
}
"""The comparison of a found value with a wanted one, and whether a match makes it false."""
