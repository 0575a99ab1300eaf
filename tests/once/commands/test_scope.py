"""Scopes: who sent a request, by what an authorizer says and never by the request itself."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once import Scope
from tests.once.support import quick


def v2(**authorizer: Any) -> dict[str, Any]:
    return {"requestContext": {"http": {"method": "POST"}, "authorizer": authorizer}}


def v1(authorizer: Any = None, **identity: Any) -> dict[str, Any]:
    context = {"authorizer": authorizer, "identity": identity}
    return {"httpMethod": "POST", "requestContext": context}


ROLE = "AROA1:session"
FOUND: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str | None]] = {
    "a claim": ("claim", ("sub",), v2(jwt={"claims": {"sub": "a"}}), '["claim","sub","a"]'),
    "a claim, REST": ("claim", ("sub",), v1({"claims": {"sub": "a"}}), '["claim","sub","a"]'),
    "two claims": (
        "claim",
        ("org", "sub"),
        v2(jwt={"claims": {"sub": "a", "org": "b"}}),
        '["claim","org","b","sub","a"]',
    ),
    "one claim of two": ("claim", ("org", "sub"), v2(jwt={"claims": {"sub": "a"}}), None),
    "a claim in a list": ("claim", ("sub",), v2(jwt={"claims": {"sub": ["a"]}}), None),
    "a claim of a Lambda authorizer": ("claim", ("sub",), v2(**{"lambda": {"sub": "a"}}), None),
    "a field": (
        "authorizer",
        ("tenant",),
        v2(**{"lambda": {"tenant": 7}}),
        '["authorizer","tenant",7]',
    ),
    "a field, REST": (
        "authorizer",
        ("tenant",),
        v1({"tenant": "7", "principalId": "p"}),
        '["authorizer","tenant","7"]',
    ),
    "a user": ("iam", (), v2(iam={"userId": "AIDA1"}), '["iam","AIDA1"]'),
    "a session": ("iam", (), v2(iam={"userId": ROLE}), '["iam","AROA1:session"]'),
    "a session, REST": ("iam", (), v1(user=ROLE, caller=ROLE), '["iam","AROA1:session"]'),
    "a role": ("role", (), v2(iam={"userId": ROLE}), '["role","AROA1"]'),
    "a session with a colon": ("role", (), v2(iam={"userId": f"{ROLE}:2"}), '["role","AROA1"]'),
    "a federated user keeps its name": (
        "role",
        (),
        v2(iam={"userId": "123456789012:bob"}),
        '["role","123456789012:bob"]',
    ),
    "a Cognito identity": (
        "role",
        (),
        v2(iam={"userId": ROLE, "cognitoIdentity": {"identityId": "eu:1"}}),
        '["role","AROA1","eu:1"]',
    ),
    "a Cognito identity, REST": (
        "iam",
        (),
        v1(user=ROLE, cognitoIdentityId="eu:1"),
        '["iam","AROA1:session","eu:1"]',
    ),
    "no signature": ("iam", (), v2(jwt={"claims": {"sub": "a"}}), None),
    "no signature, REST": ("iam", (), v1(user=None, sourceIp="1.1.1.1"), None),
    "no authorizer": ("claim", ("sub",), {"requestContext": {"http": {}}}, None),
    "all": ("public", (), v2(), '["public"]'),
    "a function": ("by", (lambda event: "a",), v2(), '["by","a"]'),
    "a function without an answer": ("by", (lambda event: None,), v2(), None),
}


@pytest.mark.parametrize(("rule", "names", "event", "text"), FOUND.values(), ids=FOUND)
def test_a_scope_is_the_authenticated_sender(
    rule: str, names: tuple[Any, ...], event: dict[str, Any], text: str | None
) -> None:
    assert getattr(Scope, rule)(*names).of(event) == text


values = st.dictionaries(st.sampled_from(["org", "sub"]), st.text(min_size=1), min_size=2)


@quick
@given(values, values)
def test_two_senders_never_have_one_scope(one: dict[str, str], other: dict[str, str]) -> None:
    scope = Scope.claim("org", "sub")
    found = [scope.of(v2(jwt={"claims": claims})) for claims in (one, other)]
    if found[0] is not None and found[0] == found[1]:
        assert one == other
