"""Source code of functions at synthesis: handlers, key rules and AWS clients are read in it."""

import json
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Annotations, Match

from once.cdk import ConsumerProps, DedupTable, IdempotentConsumer
from once.cdk.checks.aws_clients_in_code import aws_service_faults, read_clients, unread_clients
from once.cdk.checks.handlers_in_code import (
    UNREAD,
    event_types_output,
    handler_faults,
    unread_handlers,
)
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY

HANDLER = "@consumer.handles({}, Booked)\ndef book(event, tx): ...\n"
MISSING = "import not_installed_here\nfrom not_installed_here import *\n"
READ = {
    "a text": {"handler": HANDLER.format("'seat.booked'")},
    "a keyword": {"handler": "consumer.handles(model=Booked, event_type='seat.booked')(book)"},
    "no import": {"handler": MISSING + HANDLER.format("'seat.booked'")},
    "a direct call": {"handler": "consumer.handles('seat.booked', Booked)(book)"},
    "a function": {"handler": "def make():\n    consumer.handles('seat.booked', Booked)(book)"},
    "a constant": {"handler": "BOOKED = 'seat.booked'\n" + HANDLER.format("BOOKED")},
    "a typed one": {"handler": "BOOKED: Final = 'seat.booked'\n" + HANDLER.format("BOOKED")},
    "an enum": {
        "handler": "class Type(StrEnum):\n    BOOKED = 'seat.booked'\n"
        + HANDLER.format("Type.BOOKED.value")
    },
    "an imported constant": {
        "handler": "from .types import BOOKED as B\n" + HANDLER.format("B"),
        "types": "BOOKED = 'seat.booked'",
    },
    "an imported enum": {
        "handler": "from functions.tickets.types import Type\n" + HANDLER.format("Type.BOOKED"),
        "types": "class Type:\n    BOOKED = 'seat.booked'",
    },
    "a star": {
        "handler": "from .types import *\n" + HANDLER.format("BOOKED"),
        "types": "BOOKED = 'seat.booked'",
    },
    "a module": {
        "handler": "from . import types\n" + HANDLER.format("types.BOOKED"),
        "types": "BOOKED = 'seat.booked'",
    },
    "an absolute module": {
        "handler": "import functions.tickets.types as t\n" + HANDLER.format("t.BOOKED"),
        "types": "BOOKED = 'seat.booked'",
    },
    "handlers in another module": {
        "handler": "from .seats import booking",
        "seats/booking": "from ..types import BOOKED\n" + HANDLER.format("BOOKED"),
        "types": "from . import handler\nBOOKED = 'seat.booked'",
    },
    "handlers in a package": {
        "handler": "from functions.tickets import seats",
        "seats/__init__": HANDLER.format("'seat.booked'"),
    },
}
UNREADABLE = {
    "a loop": ("for t in ('seat.booked',):\n    consumer.handles(t, Booked)(book)", "handler.py:2"),
    "a constant of a wheel": (
        "from acme import BOOKED\n" + HANDLER.format("BOOKED"),
        "handler.py:2",
    ),
    "an f-string": (HANDLER.format("f'seat.{name}'"), "handler.py:1"),
    "no event type": ("consumer.handles(*given)", "handler.py:1"),
    "another name for the decorator": ("handles = consumer.handles", "handler.py:1"),
    "no handler": ("from acme import lambda_handler", "no @consumer.handles in "),
    "a handler in a file that is not imported": ("from ...seats import x", "no @consumer.handles"),
}

KEYS: dict[str, tuple[str, list[str] | None, list[str] | None]] = {
    "the default": ("", ["event"], []),
    "event": (", key=Key.event()", ["event"], []),
    "a field": (", key=Key.field('hall.row')", ["field", "hall.row"], []),
    "fields": (", key=once.Key.field('hall', ROW)", ["field", "hall", "row"], []),
    "an attribute": (", key=Key.attribute('subject')", ["attribute", "subject"], []),
    "content": (", key=Key.content(), volatile=('sent', ROW)", ["content"], ["sent", "row"]),
    "a name": (", key=KEY", None, []),
    "computed fields": (", key=Key.field(*names)", None, []),
    "no field": (", key=Key.field()", None, []),
    "another class": (", key=Other.field('hall')", None, []),
    "another rule": (", key=Key.of_record('a')", None, []),
    "computed volatile fields": (", volatile=tuple(names)", ["event"], None),
    "unknown arguments": (", **given", None, None),
}
"""Arguments of `handles`; the key rule and the volatile fields, None if unknown."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tickets"


def consumer(folder: Path, modules: dict[str, str], *external: str) -> ConsumerProps:
    for name, source in modules.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(dedent(source))
    return ConsumerProps("tickets", external=external, folder=folder)


@pytest.mark.parametrize("line", CONSUMERS, ids=lambda line: str(line.name))
def test_every_line_of_the_shop_is_compared_with_its_handlers(line: ConsumerProps) -> None:
    props = ConsumerProps(line.name, external=line.event_types, folder=REGISTRY.folder_of(line))
    assert unread_handlers(props) is None
    assert list(handler_faults(props)) == []


@pytest.mark.parametrize("modules", READ.values(), ids=READ)
def test_a_handler_is_found_without_an_import(folder: Path, modules: dict[str, str]) -> None:
    props = consumer(folder, modules, "seat.booked")
    assert unread_handlers(props) is None
    assert list(handler_faults(props)) == []


def test_a_wrong_type_in_the_line_is_a_fault_in_both_directions(folder: Path) -> None:
    props = consumer(folder, READ["a constant"], "seat.boked", "hall.closed")
    assert list(handler_faults(props)) == [
        "tickets/handler.py:2 handles 'seat.booked', which its queue never gets; add the type to "
        "external= or events=, or correct the handler",
        "external has 'seat.boked', and its folder has no handler for it (did you mean "
        "'seat.booked'?); correct the type, or add a function with "
        "@consumer.handles('seat.boked', …)",
        "external has 'hall.closed', and its folder has no handler for it; correct the type, or "
        "add a function with @consumer.handles('hall.closed', …)",
    ]


def test_a_handler_of_a_module_is_reported_at_its_place(folder: Path) -> None:
    modules = READ["handlers in another module"]
    [fault, _] = handler_faults(consumer(folder, modules, "hall.closed"))
    assert fault.startswith("tickets/seats/booking.py:2 handles 'seat.booked', which its queue")


@pytest.mark.parametrize(("source", "place"), UNREADABLE.values(), ids=UNREADABLE)
def test_handlers_that_cannot_be_read_are_a_warning_and_no_fault(
    folder: Path, source: str, place: str
) -> None:
    props = consumer(folder, {"handler": source, "seats": HANDLER.format("'x'")}, "seat.booked")
    assert list(handler_faults(props)) == []
    assert place in str(unread_handlers(props))


@pytest.mark.parametrize("broken", ["handler", "seats"])
def test_a_file_that_is_no_valid_python_is_a_fault_at_its_line(folder: Path, broken: str) -> None:
    handler = "from . import seats\n" + HANDLER.format("'seat.booked'")
    modules = {"handler": handler, "seats": "", broken: "x = 1\ndef ("}
    props = consumer(folder, modules)
    [fault] = [each for each in handler_faults(props) if "queue never gets" not in each]
    assert fault.startswith(f"tickets/{broken}.py:2: ")
    assert fault.endswith("; the function could not be loaded: correct the file")
    assert unread_handlers(props) is None


def test_a_handler_beside_an_unreadable_one_is_still_compared(folder: Path) -> None:
    source = HANDLER.format("'seat.booked'") + HANDLER.format("UNKNOWN")
    [fault] = handler_faults(consumer(folder, {"handler": source}, "hall.closed"))
    assert "handles 'seat.booked', which its queue never gets" in fault


@pytest.mark.parametrize(("given", "key", "volatile"), KEYS.values(), ids=KEYS)
def test_the_key_rule_of_a_handler_is_in_the_output(
    folder: Path, given: str, key: list[str] | None, volatile: list[str] | None
) -> None:
    source = f"ROW = 'row'\nconsumer.handles('seat.booked', Booked{given})(book)"
    props = consumer(folder, {"handler": source}, "seat.booked")
    assert json.loads(event_types_output(props)) == {
        "external": ["seat.booked"],
        "events": [],
        "grouped_by": None,
        "keys": {} if key is None else {"seat.booked": key},
        "volatile": {} if volatile == [] else {"seat.booked": volatile},
    }


def test_the_key_rule_of_two_handlers_for_one_type_is_unknown(folder: Path) -> None:
    other = "consumer.handles('seat.booked', Booked, key=Key.field('row'))"
    source = f"if old:\n    {READ['a direct call']['handler']}\nelse:\n    {other}(book)"
    found = json.loads(event_types_output(consumer(folder, {"handler": source}, "seat.booked")))
    assert (found["keys"], found["volatile"]) == ({}, {"seat.booked": None})


def test_the_construct_warns_until_it_is_acknowledged(folder: Path, tmp_path: Path) -> None:
    props = consumer(folder, {"handler": UNREADABLE["a loop"][0]}, "seat.booked")
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path), context={"local": True}), "tickets")
    IdempotentConsumer(stack, props, dedup_table=DedupTable(stack, "dedup"))
    for shown in (1, 0):
        found = Annotations.from_stack(stack).find_warning("*", Match.any_value())
        assert len([each for each in found if UNREAD in str(each.entry.data)]) == shown
        cdk.Annotations.of(stack).acknowledge_warning(UNREAD, "the types come from a wheel")


# The clients that a source creates, against the AWS services of the package.


TICKETS = ConsumerProps("tickets", external=("seat.booked",), aws_services=())
NAMED = {
    "import boto3\nssm = boto3.client('ssm')": "ssm",
    "import boto3\nec2 = boto3.resource(service_name='ec2', region_name='eu-west-1')": "ec2",
    "import boto3\nboto3.Session().client('kms')": "kms",
    "from boto3 import client as make\nmake('sts')": "sts",
    "from boto3 import client\nNAME = 'events'\nclient(NAME)": "events",
    "def make(session):\n    return session.client('bedrock-runtime')": "bedrock-runtime",
    "from aws_lambda_powertools.utilities.parameters import (\n    get_parameter)": "ssm",
    "from aws_lambda_powertools.utilities import parameters as p\np.get_app_config('x')": (
        "appconfigdata"
    ),
}
OTHERS = (
    "import httpx\nhttpx.client('x', name)",
    "def get_parameter(): ...\nget_parameter()",
    "import boto3\nboto3.client('dynamodb')",
    "import boto3\nboto3.Session().client",
    "from aws_lambda_powertools.utilities.parameters import get_secret",
    "this is no Python client('ssm')",
)
NOT_READ = (
    "import boto3\nmake = lambda name: boto3.client(name)",
    "from boto3 import resource\nresource(f'{1}')",
    "import boto3\nboto3.client(service_name=NAMES['x'])",
)


def line(folder: Path, code: str) -> ConsumerProps:
    (folder / "tickets" / "parts").mkdir(parents=True)
    (folder / "tickets" / "parts" / "calls.py").write_text(code)
    return replace(TICKETS, folder=folder / "tickets")


@pytest.mark.parametrize("code", NAMED)
def test_a_client_of_a_service_that_is_not_declared_is_refused_with_its_place(
    code: str, tmp_path: Path
) -> None:
    service = NAMED[code]
    props = line(tmp_path, code)
    last = len(code.splitlines()) - code.count("(\n")
    assert list(aws_service_faults(props)) == [
        f"tickets/parts/calls.py:{last} uses the AWS service {service!r}, whose model would not "
        f"be in the package; add {service!r} to aws_services=, or leave aws_services= out"
    ]
    assert list(aws_service_faults(replace(props, aws_services=(service,)))) == []
    assert list(aws_service_faults(replace(props, aws_services=None))) == []
    assert unread_clients(props) is None


@pytest.mark.parametrize("code", OTHERS)
def test_other_calls_and_services_of_the_library_are_no_fault(code: str, tmp_path: Path) -> None:
    props = line(tmp_path, code)
    assert list(aws_service_faults(props)) == []
    assert unread_clients(props) is None


@pytest.mark.parametrize("code", NOT_READ)
def test_a_service_that_cannot_be_read_is_a_warning_if_others_are_left_out(
    code: str, tmp_path: Path
) -> None:
    props = line(tmp_path, code)
    assert list(aws_service_faults(props)) == []
    text = unread_clients(props) or ""
    assert "cannot be read (tickets/parts/calls.py:2)" in text
    assert "acknowledge this warning" in text
    assert unread_clients(replace(props, aws_services=None)) is None


def test_a_name_that_the_sdk_does_not_know_is_refused_with_the_nearest() -> None:
    [fault] = aws_service_faults(replace(TICKETS, aws_services=("stepfunctions", "evnets")))
    assert "'evnets', which is no service of the SDK (did you mean 'events'?)" in fault


def test_the_shops_clients_are_read() -> None:
    notifications = next(each for each in REGISTRY.consumers if each.name == "notifications")
    clients = read_clients(REGISTRY.folder_of(notifications))
    assert [*clients.places, *clients.unread] == ["sesv2"]
