"""The subject that a template describes: SAM, synthesized CDK, Terraform, and what is asked for."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redelivery import Fault, Index, Subject, SubjectError, Table
from redelivery.examination import examine
from redelivery.template import subject_of

SAM = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  Stage: {Type: String, Default: test}
Conditions:
  IsLive: !Equals [!Ref Stage, live]
Globals:
  Function:
    Runtime: python3.12
    Timeout: 20
    Environment: {Variables: {STAGE: !Ref Stage}}
Resources:
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 120
      RedrivePolicy: {deadLetterTargetArn: !GetAtt Letters.Arn, maxReceiveCount: 3}
  Letters: {Type: AWS::SQS::Queue}
  Mails: {Type: AWS::SQS::Queue, Properties: {QueueName: !Sub "mails-${Stage}"}}
  Alerts: {Type: AWS::SNS::Topic}
  Live: {Type: AWS::SNS::Topic, Condition: IsLive}
  Machine: {Type: AWS::Serverless::StateMachine, Properties: {Name: ship, Type: EXPRESS}}
  Limit: {Type: AWS::SSM::Parameter, Properties: {Name: /limit, Value: "7", Type: String}}
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: orders
      AttributeDefinitions:
        - {AttributeName: order_id, AttributeType: S}
        - {AttributeName: day, AttributeType: N}
      KeySchema: [{AttributeName: order_id, KeyType: HASH}]
      GlobalSecondaryIndexes:
        - {IndexName: by-day, KeySchema: [{AttributeName: day, KeyType: HASH}]}
  Seen:
    Type: AWS::DynamoDB::Table
    Properties:
      AttributeDefinitions: [{AttributeName: id, AttributeType: S}]
      KeySchema: [{AttributeName: id, KeyType: HASH}]
      TimeToLiveSpecification: {AttributeName: expires, Enabled: true}
  Store:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: src/
      Handler: app.handler
      Environment:
        Variables:
          TABLE: !Ref Table
          MAILS: !Ref Mails
          SOURCE: !Ref Orders
          LETTERS: !GetAtt Letters.QueueName
          ALERTS: !Join ["", [!Ref Alerts]]
          MACHINE: !GetAtt Machine.Arn
          TARGET: !If [IsLive, live, !Sub "arn:${AWS::Partition}:${Table.Arn}"]
      Events:
        Queue:
          Type: SQS
          Properties:
            Queue: !GetAtt Orders.Arn
            BatchSize: 5
            FunctionResponseTypes: [ReportBatchItemFailures]
"""
HANDLER = """
import json, os, boto3
def handler(event, context):
    for record in event["Records"]:
        boto3.resource("dynamodb").Table(os.environ["TABLE"]).put_item(
            Item=json.loads(record["body"]))
        machine = os.environ["MACHINE"]
        found = boto3.client("stepfunctions").describe_state_machine(stateMachineArn=machine)
        assert found["type"] == "EXPRESS"
        assert boto3.client("ssm").get_parameter(Name="/limit")["Parameter"]["Value"] == "7"
"""
EVENT = {"Records": [{"eventSource": "aws:sqs", "body": '{"order_id": "o-1", "day": 4}'}]}


@pytest.fixture
def sam(tmp_path: Path) -> Path:
    for name, text in (("src/app.py", HANDLER), ("events/event.json", json.dumps(EVENT))):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (tmp_path / "template.yaml").write_text(SAM)
    return tmp_path / "template.yaml"


def test_a_sam_template_describes_the_subject(sam: Path) -> None:
    subject = subject_of(sam)
    expected = Subject(
        "app.handler",
        (sam.parent / "events" / "event.json",),
        function="Store",
        root=sam.parent / "src",
        environment={
            "STAGE": "test",
            "TABLE": "orders",
            "MAILS": "{queue:mails-test}",
            "SOURCE": "{source}",
            "LETTERS": "source-dlq",
            "ALERTS": "arn:aws:sns:us-east-1:123456789012:Alerts",
            "MACHINE": "arn:aws:states:us-east-1:123456789012:stateMachine:ship",
            "TARGET": "arn:aws:arn:aws:dynamodb:us-east-1:123456789012:table/orders",
        },
        tables=(
            Table("orders", "order_id:S", ttl=None, indexes=(Index("by-day", "day:N"),)),
            Table("Seen", "id:S", ttl="expires"),
        ),
        queues=("mails-test",),
        topics=("Alerts",),
        batch_failures=True,
        batch_size=5,
        timeout_seconds=20,
        visibility_seconds=120,
        max_receives=3,
    )
    assert replace(subject, set_up=expected.set_up) == expected


def test_its_handler_runs_without_another_option(sam: Path) -> None:
    [redriven] = examine(subject_of(sam), only=[Fault.REDRIVEN]).results
    assert redriven.passed


# The shapes of three public applications of aws-samples/serverless-patterns, at the commit of
# `findings`: apigw-http-api-fifo-sqs-lambda-sns-sam, sqs-lambda-tenant-isolation-sam-py and
# serverless-message-processing. The originals of the first and the last were run with one more
# option, their sample.
PUBLISHES = """
Parameters:
  QueueName: {Type: String, Default: Inbox.fifo}
  LettersName: {Type: String, Default: Letters.fifo}
Resources:
  Letters: {Type: AWS::SQS::Queue, Properties: {QueueName: !Ref LettersName, FifoQueue: True}}
  Inbox:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: !Ref QueueName
      FifoQueue: True
      VisibilityTimeout: 300
      RedrivePolicy: {deadLetterTargetArn: !GetAtt Letters.Arn, maxReceiveCount: 5}
  News: {Type: AWS::SNS::Topic, Properties: {TopicName: news}}
  Api:
    Type: AWS::Serverless::HttpApi
    Properties: {DefinitionBody: {'Fn::Transform': {Name: "AWS::Include"}}}
  Publish:
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.publish
      Runtime: python3.9
      Environment: {Variables: {TOPIC: !Ref News}}
      Policies: [SQSPollerPolicy: {QueueName: !GetAtt Inbox.QueueName}]
      Events: {Inbox: {Type: SQS, Properties: {Queue: !GetAtt Inbox.Arn}}}
Outputs:
  Url: {Value: !Sub "https://${Api}.execute-api.${AWS::Region}.${AWS::URLSuffix}/"}
"""
DISPATCHES = """
Resources:
  Failed: {Type: AWS::SQS::Queue, Properties: {QueueName: failed}}
  Jobs:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: jobs
      RedrivePolicy: {deadLetterTargetArn: !GetAtt Failed.Arn, maxReceiveCount: 3}
  JobsPolicy:
    Type: AWS::SQS::QueuePolicy
    Properties: {Queues: [!Ref Jobs], PolicyDocument: {Statement: [{Resource: !GetAtt Jobs.Arn}]}}
  Worker:
    Type: AWS::Serverless::Function
    Properties: {FunctionName: worker, Handler: app.work, Runtime: python3.12}
  Dispatch:
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.dispatch
      Runtime: python3.12
      Environment: {Variables: {WORKER: !Ref Worker}}
      Events: {Jobs: {Type: SQS, Properties: {Queue: !GetAtt Jobs.Arn, BatchSize: 10}}}
"""
REPAIRS = """
Parameters:
  Seconds: {Type: Number, Default: 29}
Globals: {Function: {Timeout: !Ref Seconds, Runtime: python3.13}}
Resources:
  Main:
    Type: AWS::SQS::Queue
    Properties: {RedrivePolicy: {deadLetterTargetArn: !GetAtt Failed.Arn, maxReceiveCount: 3}}
  Failed: {Type: AWS::SQS::Queue}
  Process:
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.process
      Events: {Main: {Type: SQS, Properties: {Queue: !GetAtt Main.Arn}}}
  Repair:
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.repair
      Environment: {Variables: {MAIN: !Ref Main}}
      Events: {Failed: {Type: SQS, Properties: {Queue: !GetAtt Failed.Arn}}}
"""
OF_APPLICATIONS = """
import os, boto3
def publish(event, context):
    for record in event["Records"]:
        boto3.client("sns").publish(TopicArn=os.environ["TOPIC"], Message=record["body"])
def dispatch(event, context):
    for record in event["Records"]:
        boto3.client("lambda").invoke(
            FunctionName=os.environ["WORKER"], InvocationType="Event", Payload=record["body"])
def repair(event, context):
    for record in event["Records"]:
        boto3.client("sqs").send_message(QueueUrl=os.environ["MAIN"], MessageBody=record["body"])
"""


@pytest.mark.parametrize(
    ("template", "function", "fields", "sent"),
    [
        (PUBLISHES, "", {"fifo": True, "visibility_seconds": 300}, "sns.Publish news"),
        (DISPATCHES, "", {"queues": (), "max_receives": 3}, "lambda.Invoke worker"),
        (REPAIRS, "Repair", {"timeout_seconds": 29, "queues": ("Main",)}, "sqs.SendMessage Main"),
    ],
    ids=["publishes", "dispatches", "repairs"],
)
def test_a_handler_of_a_sam_application_runs_with_its_sample_alone(
    template: str, function: str, fields: dict[str, Any], sent: str, tmp_path: Path
) -> None:
    (tmp_path / "template.yaml").write_text(template)
    (tmp_path / "app.py").write_text(OF_APPLICATIONS)
    subject = replace(subject_of(tmp_path / "template.yaml", function), events=[{"id": "o-1"}])
    assert {name: getattr(subject, name) for name in fields} == fields
    [redriven] = examine(subject, only=[Fault.REDRIVEN]).results
    assert [(str(d.kind), d.what) for d in redriven.differences] == [("doubled", sent)]


CDK: dict[str, Any] = {
    "Resources": {
        "Queue12": {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True}},
        "Handler3": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Handler": "app.handler",
                "Runtime": "python3.13",
                "Code": {"S3Bucket": "assets", "S3Key": "abc.zip"},
                "Environment": {
                    "Variables": {
                        "TABLE": {"Fn::ImportValue": "state:Table"},
                        "SAME": {"Fn::GetStackOutput": {"StackName": "state", "OutputName": "T"}},
                    }
                },
            },
        },
        "Version4": {
            "Type": "AWS::Lambda::Version",
            "Properties": {"FunctionName": {"Ref": "Handler3"}},
        },
        "Live5": {
            "Type": "AWS::Lambda::Alias",
            "Properties": {"FunctionName": {"Ref": "Handler3"}, "Name": "live"},
        },
        "Mapping6": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": {"Fn::GetAtt": ["Queue12", "Arn"]},
                "FunctionName": {"Ref": "Live5"},
            },
        },
    }
}
STATE = {
    "Resources": {
        "Orders": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            },
        }
    },
    "Outputs": {"T": {"Value": {"Ref": "Orders"}, "Export": {"Name": "state:Table"}}},
}


def test_a_synthesized_stack_has_its_asset_alias_and_what_another_stack_exports(
    tmp_path: Path,
) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "state.template.json").write_text(json.dumps(STATE))
    (tmp_path / "shop.template.json").write_text(json.dumps(CDK))
    with zipfile.ZipFile(tmp_path / "asset.abc.zip", "w") as archive:
        archive.writestr("app.py", "handler = None")
    subject = subject_of(tmp_path / "shop.template.json")
    assert (subject.root / "app.py").read_text() == "handler = None"
    assert subject.environment == {"TABLE": "Orders", "SAME": "Orders"}
    assert [table.name for table in subject.tables] == ["Orders"]
    assert (subject.fifo, subject.batch_failures, subject.timeout_seconds) == (True, False, 3)


REST = """
Parameters: {Size: {Type: Number}, Most: {Type: Number, Default: 3}}
Resources:
  Inbox: {Type: AWS::SQS::Queue, Properties: {VisibilityTimeout: !Ref Seconds}}
  Shared: {Type: AWS::Serverless::LayerVersion, Properties: {ContentUri: shared}}
  Readings: {Type: AWS::Kinesis::Stream, Properties: {Name: readings}}
  Users: {Type: AWS::Cognito::UserPool}
  Store:
    Type: AWS::Serverless::Function
    Metadata: {DockerContext: ./src, Dockerfile: Dockerfile}
    Properties:
      PackageType: Image
      ImageConfig: {Command: [app.handler]}
      Layers: [!Ref Shared, "arn:aws:lambda:us-east-1:1:layer:other:7"]
      Environment: {Variables: {POOL: !Ref Users, STREAM: !Ref Readings}}
      Events:
        In:
          Type: SQS
          Properties:
            Queue: !GetAtt Inbox.Arn
            BatchSize: !Ref Most
            FilterCriteria: {Filters: [{Pattern: '{"body": {"kind": ["paid"]}}'}]}
        Late: {Type: SQS, Properties: {Queue: !GetAtt Inbox.Arn}}
"""
IMPORTS_A_LAYER = """
import json, os, boto3, shared_name
assert os.environ["_HANDLER"] == "app.handler" and os.environ["LAMBDA_TASK_ROOT"].endswith("src")
def handler(event, context):
    for record in event["Records"]:
        boto3.client("kinesis").put_record(
            StreamName=os.environ["STREAM"], PartitionKey="1", Data=record["body"])
"""


def test_an_image_with_layers_runs_and_what_is_not_read_is_named(tmp_path: Path) -> None:
    for name, text in (("src/app.py", IMPORTS_A_LAYER), ("shared/python/shared_name.py", "")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "template.yaml").write_text(REST)
    subject = subject_of(tmp_path / "template.yaml")
    assert (subject.handler, subject.root) == ("app.handler", tmp_path / "src")
    assert (subject.batch_size, subject.visibility_seconds) == (3, 30)
    report = examine(replace(subject, events=[{"id": "o-1"}]), only=[Fault.REDRIVEN])
    [redriven] = report.results
    assert [str(d.what) for d in redriven.differences] == ["kinesis.PutRecord readings"]
    assert [*report.warnings] == [
        "not read: layer arn:aws:lambda:us-east-1:1:layer:other:7 has no folder here: install its "
        "packages in this environment",
        "not read: FilterCriteria of the mapping: each sample reaches the function",
        "not read: the mapping of Inbox: the check is of the first",
        "not read: Users (AWS::Cognito::UserPool) is not created: `set_up` of a Subject may do it",
        "not read: VisibilityTimeout is Seconds, which has no value here: 30 is taken",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "cannot read the template"),
        ("a: b", "has no Resources"),
        ("Resources: {}", "no function reads a queue"),
        (SAM.replace("Events:", "Ignored:"), "no function reads a queue"),
        (
            SAM.replace("Type: SQS", "Type: Kinesis").replace(
                "!GetAtt Orders.Arn", "arn:aws:kinesis"
            ),
            "no function reads a queue; Store read a stream, and the check is of SQS",
        ),
        (SAM.replace("CodeUri: src/", "PackageType: Image"), "Store is an image, which names no"),
        (SAM.replace("src/", "s3://bucket/key"), "where Store's code is: add --root"),
        (SAM.replace("python3.12", "nodejs22.x"), "runs on nodejs22.x"),
        (SAM + SAM.partition("  Store:")[2].join(["  Second:", ""]), "name one of Store, Second"),
    ],
)
def test_what_a_template_does_not_show_is_asked_for(text: str, told: str, sam: Path) -> None:
    sam.write_text(text)
    with pytest.raises(SubjectError, match=told):
        subject_of(sam)
