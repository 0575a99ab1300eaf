"""The evaluator of policies itself: each of its forms allows something, and denies something."""

from typing import Any

import pytest

from tests.stacks.policies import Request, allows

ALLOW: dict[str, Any] = {"Effect": "Allow", "Action": "s:Get", "Resource": "r"}
DENY = ALLOW | {"Effect": "Deny"}


def holds(operator: str, wanted: Any, **context: Any) -> bool:
    """Whether a statement under this condition on the key `k` allows a request."""
    statement = ALLOW | {"Condition": {operator: {"k": wanted}}}
    return allows(Request("s:Get", "r", context), [statement])


def test_without_a_statement_nothing_is_allowed() -> None:
    assert not allows(Request("s:Get", "r"), [])


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [("s:Get", "r", True), ("S:GET", "r", True), ("s:Put", "r", False), ("s:Get", "R", False)],
)
def test_action_and_resource_must_match(action: str, resource: str, *, allowed: bool) -> None:
    assert allows(Request(action, resource), [ALLOW]) is allowed


def test_wildcards_match() -> None:
    statement = ALLOW | {"Action": ["s:*"], "Resource": ["a/*", "b?"]}
    assert allows(Request("s:Put", "a/b/c"), [statement])
    assert allows(Request("s:Put", "b1"), [statement])
    assert not allows(Request("s:Put", "b12"), [statement])
    assert not allows(Request("t:Put", "a/b"), [statement])


def test_a_denial_wins_over_every_permission() -> None:
    assert not allows(Request("s:Get", "r"), [ALLOW, DENY])
    assert not allows(Request("s:Get", "r"), [ALLOW], [DENY | {"Principal": "*"}])


def test_a_denial_of_something_else_denies_nothing() -> None:
    assert allows(Request("s:Get", "r"), [ALLOW, DENY | {"Action": "s:Put"}])


@pytest.mark.parametrize(
    ("operator", "wanted", "values", "held"),
    [
        ("StringEquals", "a", ["a"], True),
        ("StringEquals", "a*", ["ab"], False),
        ("StringEquals", ["a", "b"], ["b"], True),
        ("StringLike", "a#*", ["a#1"], True),
        ("StringLike", "a#*", ["ab#1"], False),
        ("ArnNotEquals", ["a", "b"], ["b"], False),
        ("ArnNotEquals", ["a", "b"], ["c"], True),
        ("ForAllValues:StringLike", "a#*", ["a#1", "a#2"], True),
        ("ForAllValues:StringLike", "a#*", ["a#1", "b#1"], False),
        ("ForAnyValue:StringEquals", "a", ["b", "a"], True),
        ("ForAnyValue:StringEquals", "a", ["b"], False),
        ("Null", "false", ["x"], True),
        ("Null", "true", ["x"], False),
    ],
)
def test_an_operator_compares_values(
    operator: str, wanted: Any, values: list[str], *, held: bool
) -> None:
    assert holds(operator, wanted, k=values) is held


@pytest.mark.parametrize(
    ("operator", "held"),
    [
        ("StringEquals", False),
        ("StringLike", False),
        ("ArnNotEquals", True),
        ("ForAnyValue:StringEquals", False),
        ("ForAllValues:StringLike", True),
        ("Null", False),
    ],
)
def test_a_key_that_is_missing_is_judged_as_iam_does(operator: str, *, held: bool) -> None:
    assert holds(operator, "false") is held


def test_all_conditions_must_hold() -> None:
    both = {"StringEquals": {"k": "a"}, "StringLike": {"l": "b*"}}
    statement = ALLOW | {"Condition": both}
    assert allows(Request("s:Get", "r", {"k": ["a"], "l": ["bc"]}), [statement])
    assert not allows(Request("s:Get", "r", {"k": ["a"], "l": ["c"]}), [statement])


def test_unknown_forms_are_errors() -> None:
    with pytest.raises(KeyError):
        holds("NumericEquals", "1", k=["1"])
    with pytest.raises(ValueError, match="quantifier"):
        holds("ForSome:StringEquals", "1", k=["1"])
    with pytest.raises(ValueError, match="principal"):
        allows(Request("s:Get", "r"), [ALLOW | {"Principal": {"AWS": "1"}}])
