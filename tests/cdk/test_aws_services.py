"""The clients that a function's source creates, against the AWS services of its package."""

from dataclasses import replace
from pathlib import Path

import pytest

from once.cdk import ConsumerProps
from once.cdk.checks.aws_clients_in_code import aws_service_faults, read_clients, unread_clients
from stacks.registry import REGISTRY

LINE = ConsumerProps("tickets", external=("seat.booked",), aws_services=())
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
UNREAD = (
    "import boto3\nmake = lambda name: boto3.client(name)",
    "from boto3 import resource\nresource(f'{1}')",
    "import boto3\nboto3.client(service_name=NAMES['x'])",
)


def line(folder: Path, code: str) -> ConsumerProps:
    (folder / "tickets" / "parts").mkdir(parents=True)
    (folder / "tickets" / "parts" / "calls.py").write_text(code)
    return replace(LINE, folder=folder / "tickets")


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


@pytest.mark.parametrize("code", UNREAD)
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
    [fault] = aws_service_faults(replace(LINE, aws_services=("stepfunctions", "evnets")))
    assert "'evnets', which is no service of the SDK (did you mean 'events'?)" in fault


def test_the_shops_clients_are_read() -> None:
    notifications = next(each for each in REGISTRY.consumers if each.name == "notifications")
    clients = read_clients(REGISTRY.folder_of(notifications))
    assert [*clients.places, *clients.unread] == ["sesv2"]
