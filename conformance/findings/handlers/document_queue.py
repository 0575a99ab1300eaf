"""Starts a Step Functions execution for each document, below a limit that DynamoDB counts.

Its handler has the shape of issue 904 of its repository: a batch that times out is delivered again,
and documents whose execution was started are started again.
"""

import json

import boto3

from findings.public_handler import PublicHandler
from redelivery import Answer, Subject, Table

_REGION, _ACCOUNT = "us-east-1", "123456789012"
_GRAPHQL = "https://appsync.example.com/graphql"
_DEFINITION = {"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": True}}}


def _create_state_machine() -> None:
    boto3.client("stepfunctions", region_name=_REGION).create_state_machine(
        name="documents",
        definition=json.dumps(_DEFINITION),
        roleArn=f"arn:aws:iam::{_ACCOUNT}:role/documents",
    )


def _document(key: str) -> dict[str, str]:
    return {
        "id": key,
        "input_bucket": "documents",
        "input_key": key,
        "output_bucket": "results",
        "status": "QUEUED",
        "queued_time": "2026-01-02T03:04:05+00:00",
    }


HANDLER = PublicHandler(
    name="document queue",
    repository="aws-solutions-library-samples/accelerated-intelligent-document-processing-on-aws",
    commit="53a65443873b53cb1682cd1761be10cc80534455",
    path="src/lambda/queue_processor/index.py",
    licence="MIT-0",
    package=("src/lambda/queue_processor", "lib/idp_common_pkg/idp_common"),
    subject=Subject(
        handler="index.handler",
        events=(_document("invoices/1.pdf"), _document("invoices/2.pdf")),
        environment={
            "CONCURRENCY_TABLE": "concurrency",
            "STATE_MACHINE_ARN": f"arn:aws:states:{_REGION}:{_ACCOUNT}:stateMachine:documents",
            "APPSYNC_API_URL": _GRAPHQL,
            "MAX_CONCURRENT": "100",
            "LOG_LEVEL": "ERROR",
            "AWS_REGION": "us-east-1",
        },
        tables=(
            Table(
                "concurrency",
                key="counter_id",
                items=({"counter_id": "workflow_counter", "active_count": 0},),
            ),
        ),
        repeatable=(_GRAPHQL,),
        answers=(Answer(_GRAPHQL, body={"data": {"updateDocument": {"ObjectKey": "a"}}}),),
        set_up=_create_state_machine,
        timeout_seconds=30,
        visibility_seconds=30,
        max_receives=1000,
    ),
)
