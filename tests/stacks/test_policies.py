"""The policy evaluator of these tests: each form allows a request, and denies one."""

from typing import Any

import pytest

from tests.stacks.policies import Request, allows

ALLOW: dict[str, Any] = {"Effect": "Allow", "Action": "s:Get", "Resource": "r"}
DENY = ALLOW | {"Effect": "Deny"}
WILD = ALLOW | {"Action": ["s:*"], "Resource": ["a/*", "b?"]}
CONDITIONS = {"StringEquals": {"k": "a"}, "StringLike": {"l": "b*"}}


def test_action_and_resource_must_match_and_a_denial_wins() -> None:
    for statements, action, resource, allowed in (
        ([], "s:Get", "r", False),
        ([ALLOW], "S:GET", "r", True),
        ([ALLOW], "s:Put", "r", False),
        ([ALLOW], "s:Get", "R", False),
        ([WILD], "s:Put", "a/b/c", True),
        ([WILD], "s:Put", "b1", True),
        ([WILD], "s:Put", "b12", False),
        ([WILD], "t:Put", "a/b", False),
        ([ALLOW, DENY], "s:Get", "r", False),
        ([ALLOW, DENY | {"Action": "s:Put"}], "s:Get", "r", True),
    ):
        assert allows(Request(action, resource), statements) is allowed, (statements, action)
    assert not allows(Request("s:Get", "r"), [ALLOW], [DENY | {"Principal": "*"}])


@pytest.mark.parametrize(
    ("operator", "wanted", "holds", "fails"),
    [
        ("StringEquals", ["a*", "b"], ["a*", "b"], ["ab", None]),
        ("StringLike", "a#*", ["a#1"], ["ab#1", None]),
        ("ArnNotEquals", ["a", "b"], ["c", None], ["b"]),
        ("ForAllValues:StringLike", "a#*", ["a#1 a#2", None], ["a#1 b#1"]),
        ("ForAnyValue:StringEquals", "a", ["b a"], ["b", None]),
        ("Null", "false", ["x"], [None]),
        ("Null", "true", [None], ["x"]),
    ],
)
def test_an_operator_compares_the_values_of_a_key_that_may_be_missing(
    operator: str, wanted: Any, holds: list[str | None], fails: list[str | None]
) -> None:
    for values, held in ((holds, True), (fails, False)):
        for value in values:
            context = {} if value is None else {"k": value.split()}
            statement = ALLOW | {"Condition": {operator: {"k": wanted}}}
            assert allows(Request("s:Get", "r", context), [statement]) is held


def test_all_conditions_must_hold() -> None:
    for value, allowed in (("bc", True), ("c", False)):
        request = Request("s:Get", "r", {"k": ["a"], "l": [value]})
        assert allows(request, [ALLOW | {"Condition": CONDITIONS}]) is allowed


@pytest.mark.parametrize(
    ("unknown", "error"),
    [
        ({"Condition": {"NumericEquals": {"k": "1"}}}, KeyError("NumericEquals")),
        ({"Condition": {"ForSome:StringEquals": {"k": "1"}}}, ValueError("quantifier")),
        ({"Principal": {"AWS": "1"}}, ValueError("principal")),
    ],
    ids=["operator", "quantifier", "principal"],
)
def test_an_unknown_form_is_an_error(unknown: dict[str, Any], error: Exception) -> None:
    with pytest.raises(type(error), match=error.args[0]):
        allows(Request("s:Get", "r", {"k": ["1"]}), [ALLOW | unknown])
