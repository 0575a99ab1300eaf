"""Checks of commands at synthesis: their properties, their code, and the lines beside them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.aws_apigatewayv2 import HttpApi

from once.cdk import (
    Auth,
    CommandFunction,
    CommandProps,
    ConsumerProps,
    Dedup,
    DedupTable,
    DeployedNames,
    DeploymentConfig,
    Rollout,
    SynthError,
    TableProps,
    consumer_set_faults,
    missing_name_faults,
)
from once.cdk.checks.consumer_set import route_warnings
from once.cdk.checks.handlers_in_code import unread_handlers
from once.cdk.deployed_names import lost_use_faults
from tests.stacks.cloud import resources_of, without_packages

ORDERS = TableProps("orders", "order_id")
GOOD = CommandProps(
    "till",
    tables=(ORDERS,),
    routes={"POST /orders": "place-order"},
    auth=Auth.jwt("https://issuer", "client"),
    publishes=("order.placed",),
)
TAKER = ConsumerProps("taker", events=("order.placed",))
HANDLER = """from once import Commands, Scope

api = Commands("till")


@api.handles("place-order", dict)
def place(command, tx): ...


lambda_handler = api.http({"POST /orders": "place-order"}, scope=Scope.claim("sub"))
"""


def faults(line: CommandProps, *others: Any, **options: Any) -> list[str]:
    return consumer_set_faults([*others, line], DeploymentConfig(**options))


@pytest.fixture
def written(tmp_path: Path) -> CommandProps:
    """The line with the handler above in its folder."""
    (tmp_path / "handler.py").write_text(HANDLER)
    return replace(GOOD, folder=tmp_path)


def test_sound_commands_have_no_fault(written: CommandProps) -> None:
    assert faults(written, TAKER) == []
    assert faults(replace(GOOD, routes={}, auth=None, commands=("place-order",))) == []
    assert unread_handlers(written) is None


FAULTS: dict[str, dict[str, Any]] = {
    "'GET /orders' is no route": {"routes": {"GET /orders": "place-order"}},
    "'POST orders' is no route": {"routes": {"POST orders": "place-order"}},
    "'POST /{a}/{a}' is no route": {"routes": {"POST /{a}/{a}": "place-order"}},
    "routes= without auth=": {"auth": None},
    "auth= without routes=": {"routes": {}, "commands": ("place-order",)},
    "it has no command": {"routes": {}, "auth": None},
    "auth= is of the kind 'token'": {"auth": Auth("token")},
    "the issuer 'http://issuer' of auth= is no address": {"auth": Auth.jwt("http://issuer", "a")},
    "Auth.jwt() has no audience": {"auth": Auth.jwt("https://issuer")},
    "timeout_seconds=31 with routes=; lower it to 30": {"timeout_seconds": 31},
    "timeout_seconds=5; choose 6 to 900": {"timeout_seconds": 5},
    "requests_a_second=0; choose 1 to 10000": {"requests_a_second": 0},
    "reserved_concurrency=0; choose 1 or more": {"reserved_concurrency": 0},
    "memory_mb=64; choose 128 to 10240": {"memory_mb": 64},
    "the name 'outbox_relay' is that of a function": {"name": "outbox_relay"},
    "publishes has 'order,placed', which selects no event": {"publishes": ("order,placed",)},
    "the table name 'Orders'": {"tables": (TableProps("Orders", "id"),)},
    "routes=['POST /orders']; give a mapping such as": {"routes": ["POST /orders"]},
    "auth='iam'; give Auth.jwt": {"auth": "iam"},
}


@pytest.mark.parametrize("mistake", FAULTS)
def test_a_fault_names_the_commands_the_mistake_and_the_remedy(mistake: str) -> None:
    found = [each for each in faults(replace(GOOD, **FAULTS[mistake])) if mistake in each]
    assert len(found) == 1
    assert found[0].startswith("commands ")
    assert ";" in found[0]


def test_snap_start_needs_a_runtime_that_has_it() -> None:
    (fault,) = faults(replace(GOOD, snap_start=True), python_runtime="3.11")
    assert "snap_start=True on Python 3.11" in fault


CODE = {
    ("claim(", "iam("): "has scope=Scope.iam(), and auth= is Auth.jwt()",
    ("claim(", "public("): "has scope=Scope.public(), and auth= is Auth.jwt()",
    (', scope=Scope.claim("sub")', ""): "has no scope=, and auth= is Auth.jwt()",
    ('{"POST /orders"', '{"POST /order"'): "and routes= differ in 'POST /order': 'place-order'",
    ('handles("place-order"', 'handles("place-orders"'): "handles 'place-orders', which its line",
    ("def place(", "def ("): "the function could not be loaded",
}


@pytest.mark.parametrize("change", CODE)
def test_code_that_differs_from_its_line_is_a_fault_with_its_place(
    written: CommandProps, change: tuple[str, str]
) -> None:
    assert written.folder is not None
    (written.folder / "handler.py").write_text(HANDLER.replace(*change))
    found = [each for each in faults(written) if CODE[change] in each]
    assert len(found) == 1
    assert f"{written.folder.name}/handler.py:" in found[0]


@pytest.mark.parametrize(
    ("auth", "rule"),
    [
        (Auth.iam(), "iam"),
        (Auth.iam(), "role"),
        (Auth.public(), "public"),
        (GOOD.auth, "by"),
    ],
)
def test_a_scope_that_fits_its_authentication_is_no_fault(
    written: CommandProps, auth: Auth, rule: str
) -> None:
    assert written.folder is not None
    (written.folder / "handler.py").write_text(HANDLER.replace("claim(", f"{rule}("))
    assert faults(replace(written, auth=auth)) == []


def test_a_command_without_a_handler_is_found_unless_the_code_cannot_be_read(
    written: CommandProps,
) -> None:
    (fault,) = faults(replace(written, commands=("place-ordr",)))
    assert "no handler for it (did you mean 'place-order'?)" in fault
    assert written.folder is not None
    (written.folder / "handler.py").write_text(HANDLER.replace('"place-order", dict', "NAME, dict"))
    assert faults(written) == []
    assert "the commands of its handlers cannot be read" in str(unread_handlers(written))


def test_commands_share_no_name_and_their_types_come_from_them_only() -> None:
    for other in (replace(TAKER, name="till"), replace(TAKER, renamed_from="till")):
        (fault,) = faults(GOOD, other)
        assert "has this name too" in fault
    (fault,) = faults(GOOD, replace(TAKER, events=(), external=("order.placed",)))
    assert "which till publishes, so that a producer could forge it" in fault
    on_item = replace(TAKER, tables=(ORDERS,), dedup=Dedup.ITEM)
    (fault,) = faults(GOOD, on_item)
    assert "would erase them" in fault
    (fault,) = faults(GOOD, replace(TAKER, tables=(TableProps("orders", "id"),)))
    assert "declare it once and share it" in fault
    (warning,) = route_warnings([GOOD])
    assert "commands 'till' publishes 'order.placed', which no consumer takes" in warning.text


def test_deployed_commands_stay_and_lose_no_part_during_a_rollout() -> None:
    deployed = DeployedNames.of([GOOD])
    assert list(missing_name_faults(deployed, [GOOD])) == []
    table, gone = sorted(missing_name_faults(deployed, []), reverse=True)
    assert gone.startswith("commands 'till' were deployed and have no line")
    assert table.startswith("table 'orders' was deployed")
    slow = replace(GOOD, rollout=Rollout.CANARY_10_PERCENT_5_MINUTES, publishes=())
    (fault,) = lost_use_faults(deployed, [slow])
    assert fault.startswith("commands 'till' loses the published type 'order.placed'")


def test_routes_are_added_to_an_api_that_exists_and_every_one_has_its_authorizer(
    written: CommandProps,
) -> None:
    stack = cdk.Stack()
    api = HttpApi.from_http_api_attributes(stack, "Shop", http_api_id="a1b2c3")
    line = replace(written, publishes=(), tables=())
    with without_packages():
        made = CommandFunction(stack, line, dedup_table=DedupTable(stack, "dedup"), api=api)
    assert made.url is None
    assert resources_of(stack, "AWS::ApiGatewayV2::Api") == []
    [route] = resources_of(stack, "AWS::ApiGatewayV2::Route")
    assert (route["ApiId"], route["AuthorizationType"]) == ("a1b2c3", "JWT")
    [authorizer] = resources_of(stack, "AWS::ApiGatewayV2::Authorizer")
    assert (authorizer["ApiId"], authorizer["AuthorizerType"]) == ("a1b2c3", "JWT")


def test_faults_of_the_parts_end_the_synthesis_together(written: CommandProps) -> None:
    stack = cdk.Stack()
    with pytest.raises(SynthError) as caught:
        CommandFunction(stack, written, dedup_table=DedupTable(stack, "dedup"))
    table, relay = caught.value.faults
    assert table == "the table 'orders' is missing; add it to tables= of CommandFunction"
    assert "they would stay in its outbox; give relay= an OutboxRelay" in relay
