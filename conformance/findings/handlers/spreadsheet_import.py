"""Reads a CSV file that was put into a bucket and stores each row in a table."""

import boto3

from findings.handlers.repositories import SERVERLESS_PATTERNS, SERVERLESS_PATTERNS_COMMIT
from findings.public_handler import PublicHandler
from redelivery import Subject, Table

_FILES = {
    "a.csv": "id,name,email\n1,Ada,ada@example.com\n2,Ben,ben@example.com\n",
    "b.csv": "id,name,email\n3,Cleo,cleo@example.com\n",
}


def _put_files() -> None:
    client = boto3.client("s3", region_name="us-east-1")
    for key, text in _FILES.items():
        client.put_object(Bucket="uploads", Key=key, Body=text.encode())


def _created(key: str) -> dict[str, object]:
    return {"Records": [{"s3": {"bucket": {"name": "uploads"}, "object": {"key": key}}}]}


HANDLER = PublicHandler(
    name="CSV import",
    repository=SERVERLESS_PATTERNS,
    commit=SERVERLESS_PATTERNS_COMMIT,
    path="cdk-s3-sqs-lambda-dynamodb/lambda/index.py",
    licence="MIT-0",
    package=("cdk-s3-sqs-lambda-dynamodb/lambda",),
    subject=Subject(
        handler="index.lambda_handler",
        events=(_created("a.csv"), _created("b.csv")),
        tables=(Table("employeeInfoNew", key="email"),),
        buckets=("uploads",),
        set_up=_put_files,
        batch_failures=False,
        timeout_seconds=3,
        visibility_seconds=300,
    ),
)
