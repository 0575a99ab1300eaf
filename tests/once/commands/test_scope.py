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
FOUND: dict[str, tuple[Scope, dict[str, Any], str | None]] = {
    "a claim": (Scope.claim("sub"), v2(jwt={"claims": {"sub": "a"}}), '["claim","sub","a"]'),
    "a claim, REST": (Scope.claim("sub"), v1({"claims": {"sub": "a"}}), '["claim","sub","a"]'),
    "two claims": (
        Scope.claim("org", "sub"),
        v2(jwt={"claims": {"sub": "a", "org": "b"}}),
        '["claim","org","b","sub","a"]',
    ),
    "one claim of two": (Scope.claim("org", "sub"), v2(jwt={"claims": {"sub": "a"}}), None),
    "a claim in a list": (Scope.claim("sub"), v2(jwt={"claims": {"sub": ["a"]}}), None),
    "a claim of a Lambda authorizer": (Scope.claim("sub"), v2(**{"lambda": {"sub": "a"}}), None),
    "a field": (
        Scope.authorizer("tenant"),
        v2(**{"lambda": {"tenant": 7}}),
        '["authorizer","tenant",7]',
    ),
    "a field, REST": (
        Scope.authorizer("tenant"),
        v1({"tenant": "7", "principalId": "p"}),
        '["authorizer","tenant","7"]',
    ),
    "a user": (Scope.iam(), v2(iam={"userId": "AIDA1"}), '["iam","AIDA1"]'),
    "a session": (Scope.iam(), v2(iam={"userId": ROLE}), '["iam","AROA1:session"]'),
    "a session, REST": (Scope.iam(), v1(user=ROLE, caller=ROLE), '["iam","AROA1:session"]'),
    "a role": (Scope.role(), v2(iam={"userId": ROLE}), '["role","AROA1"]'),
    "a federated user keeps its name": (
        Scope.role(),
        v2(iam={"userId": "123456789012:bob"}),
        '["role","123456789012:bob"]',
    ),
    "a Cognito identity": (
        Scope.role(),
        v2(iam={"userId": ROLE, "cognitoIdentity": {"identityId": "eu:1"}}),
        '["role","AROA1","eu:1"]',
    ),
    "a Cognito identity, REST": (
        Scope.iam(),
        v1(user=ROLE, cognitoIdentityId="eu:1"),
        '["iam","AROA1:session","eu:1"]',
    ),
    "no signature": (Scope.iam(), v2(jwt={"claims": {"sub": "a"}}), None),
    "no signature, REST": (Scope.iam(), v1(user=None, sourceIp="1.1.1.1"), None),
    "no authorizer": (Scope.claim("sub"), {"requestContext": {"http": {}}}, None),
    "all": (Scope.public(), v2(), '["public"]'),
    "a function": (Scope.by(lambda event: "a"), v2(), '["by","a"]'),
    "a function without an answer": (Scope.by(lambda event: None), v2(), None),
}


@pytest.mark.parametrize(("scope", "event", "text"), FOUND.values(), ids=FOUND)
def test_a_scope_is_the_authenticated_sender(
    scope: Scope, event: dict[str, Any], text: str | None
) -> None:
    assert scope.of(event) == text


values = st.dictionaries(st.sampled_from(["org", "sub"]), st.text(min_size=1), min_size=2)


@quick
@given(values, values)
def test_two_senders_never_have_one_scope(one: dict[str, str], other: dict[str, str]) -> None:
    scope = Scope.claim("org", "sub")
    found = [scope.of(v2(jwt={"claims": claims})) for claims in (one, other)]
    if found[0] is not None and found[0] == found[1]:
        assert one == other
