"""The public handlers that were checked: where each one's code is, and the subject of its check."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
import psycopg
import psycopg2
import redis
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from psycopg.conninfo import conninfo_to_dict

from redelivery import Answer, Method, Store, Subject, Table

_SERVERLESS_PATTERNS = "aws-samples/serverless-patterns"
_PATTERNS_COMMIT = "fb7b5d06c27d8abb1bd35e52ab7523acf4baab7b"
_REGION, _ACCOUNT = "us-east-1", "123456789012"


@dataclass(frozen=True, slots=True)
class PublicHandler:
    """A handler in a public repository.

    Attributes:
        name: its name in the table, unique.
        repository: `owner/name` at GitHub.
        commit: the full hash.
        path: the handler's file, in the repository.
        licence: the repository's licence, as SPDX names it.
        package: files and folders that its deployment packs together. A folder that is a Python
            package is packed as one; of another folder, its content is packed.
        subject: what to check. Its root is filled in by the run.
        correction: the fields that differ in the subject of its correction, a function of
            `corrections.py`.
        server: the server, as in `lab.stores`, that its store is; empty without one. The subject is
            then complete after `ready`.
    """

    name: str
    repository: str
    commit: str
    path: str
    licence: str
    package: Sequence[str]
    subject: Subject
    correction: Mapping[str, Any] = field(default_factory=dict)
    server: str = ""

    @property
    def corrected(self) -> Subject:
        """The subject of the correction."""
        name = "_".join(self.name.lower().split())
        changes = {"root": Path(__file__).parent, "batch_failures": True, **self.correction}
        return replace(self.subject, handler=f"corrections.{name}", **changes)

    @property
    def clone(self) -> str:
        """The name of the folder that `git clone` makes."""
        return self.repository.partition("/")[2]


# Starts a Step Functions execution for each document, below a limit that DynamoDB counts. It has
# the shape of issue 904 of its repository: a batch that times out is delivered again, and documents
# whose execution was started are started again.
_GRAPHQL = "https://appsync.example.com/graphql"
_STATE_MACHINE = {"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": True}}}


def _create_state_machine() -> None:
    boto3.client("stepfunctions", region_name=_REGION).create_state_machine(
        name="documents",
        definition=json.dumps(_STATE_MACHINE),
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


_DOCUMENT_QUEUE = PublicHandler(
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
            "AWS_REGION": _REGION,
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

# Powertools' documented example of the batch processor with the idempotency utility. Its
# `record_handler` returns the body and changes nothing. How often it runs is therefore counted: it
# reads the record's body once.
_body: Any = vars(SQSRecord)["body"].fget
_runs: list[str] = []


def _counted_body(record: SQSRecord) -> str:
    body: str = _body(record)
    if sys._getframe(1).f_code.co_name == "record_handler":
        _runs.append(body)
    return body


def _reset_runs() -> None:
    setattr(SQSRecord, "body", property(_counted_body))  # noqa: B010 - mypy: a property is no attribute
    _runs.clear()


_POWERTOOLS_BATCH = PublicHandler(
    name="Powertools batch with idempotency",
    repository="aws-powertools/powertools-lambda-python",
    commit="fa1c29f2d497a7c233f06eb69d0f7ee1b187a9e4",
    path="examples/idempotency/src/integrate_idempotency_with_batch_processor.py",
    licence="MIT-0",
    package=("examples/idempotency/src/integrate_idempotency_with_batch_processor.py",),
    subject=Subject(
        handler="integrate_idempotency_with_batch_processor.lambda_handler",
        events=({"order_id": "o-1", "amount": 10}, {"order_id": "o-2", "amount": 20}),
        environment={"IDEMPOTENCY_TABLE": "idempotency"},
        tables=(Table("idempotency", key="id", ttl="expiration"),),
        stores=(
            Store(
                "runs of record_handler", _reset_runs, lambda: [{"body": body} for body in _runs]
            ),
        ),
        timeout_seconds=5,
        visibility_seconds=30,
        max_receives=2,
        skip=("conflicted",),  # nothing writes to the table in a transaction
    ),
    correction={"stores": (), "tables": (Table("idempotency", key="id"),)},
)


def _validated_order(order_id: str) -> dict[str, object]:
    items = [{"sku": "AWS-EXAM-VOUCHER", "qtd": 1}]
    return {
        "source": "app.orders.validation",
        "detail-type": "OrderValidated",
        "time": "2026-01-02T03:04:05Z",
        "detail": {"pedidoId": order_id, "clienteId": "CLIENT-99", "itens": items},
    }


# Stores a validated order under the condition that it does not exist; alerts on a duplicate.
_ORDER_PERSISTER = PublicHandler(
    name="order persister",
    repository="DessimA/aws-serverless-order-management",
    commit="79f0939c8c33a7ffd0b48dd8f6ce7bfa47eb6a78",
    path="src/order_processor/index.py",
    licence="MIT",
    package=("src/order_processor", "src/common"),
    subject=Subject(
        handler="index.lambda_handler",
        events=(_validated_order("ORD-1001"), _validated_order("ORD-1002")),
        environment={"DYNAMODB_TABLE": "orders", "SNS_TOPIC_ARN": "{topic:alerts}"},
        tables=(Table("orders", key="orderId"),),
        topics=("alerts",),
        timeout_seconds=60,
        visibility_seconds=360,
        max_receives=3,
    ),
)


def _failed_email(message_id: str) -> dict[str, object]:
    return {
        "messageId": message_id,
        "messageType": "TYPE_A",
        "payload": {"email": f"{message_id}@example.con", "data": "some data"},
        "timestamp": "2026-01-02T03:04:05Z",
    }


# Repairs the address in a message of a dead-letter queue and sends the message to a queue.
_EMAIL_REMEDIATION = PublicHandler(
    name="email remediation",
    repository=_SERVERLESS_PATTERNS,
    commit=_PATTERNS_COMMIT,
    path="serverless-message-processing/functions/decision_maker/app.py",
    licence="MIT-0",
    package=("serverless-message-processing/functions/decision_maker",),
    subject=Subject(
        handler="app.lambda_handler",
        events=(_failed_email("m-1"), _failed_email("m-2")),
        environment={"MAIN_QUEUE_URL": "{queue:main}", "FATAL_DLQ_URL": "{queue:fatal}"},
        queues=("main", "fatal"),
        timeout_seconds=29,
        visibility_seconds=30,
    ),
    correction={"repeatable": ("main", "fatal")},
)

# Sends one message a minute and customer to a second FIFO queue; others stay in the first.
_DELAYED_FIFO = PublicHandler(
    name="delayed FIFO",
    repository=_SERVERLESS_PATTERNS,
    commit=_PATTERNS_COMMIT,
    path="sqs-fifo-delayed-queue-dynamodb/lambda/process_message.py",
    licence="MIT-0",
    package=("sqs-fifo-delayed-queue-dynamodb/lambda",),
    subject=Subject(
        handler="process_message.handler",
        events=({"customer": "c-1", "text": "first"}, {"customer": "c-2", "text": "first"}),
        key="customer",  # becomes the message group
        environment={"TABLE_NAME": "customers", "QUEUE_URL": "{queue:downstream.fifo}"},
        tables=(Table("customers", key="customer_id", ttl="ttl"),),
        queues=("downstream.fifo",),
        fifo=True,
        timeout_seconds=3,
        visibility_seconds=60,
        # The function ends long before its messages are visible again, and another message of a
        # customer is no duplicate.
        skip=("in-parallel", "other-content"),
    ),
    correction={"repeatable": ("downstream.fifo",)},
)

# Publishes each message of a FIFO queue to an SNS topic.
_FIFO_TO_SNS = PublicHandler(
    name="FIFO to SNS",
    repository=_SERVERLESS_PATTERNS,
    commit=_PATTERNS_COMMIT,
    path="apigw-http-api-fifo-sqs-lambda-sns-sam/src/app.py",
    licence="MIT-0",
    package=("apigw-http-api-fifo-sqs-lambda-sns-sam/src",),
    subject=Subject(
        handler="app.lambda_handler",
        events=({"messagegroup": "a", "text": "first"}, {"messagegroup": "b", "text": "second"}),
        environment={"TOPIC_ARN": "{topic:notifications}"},
        topics=("notifications",),
        fifo=True,
        batch_failures=False,
        timeout_seconds=3,
        visibility_seconds=300,
        skip=("in-parallel",),  # the function ends long before its messages are visible again
    ),
    correction={"repeatable": ("notifications",)},
)

# Forwards each message to a second queue.
_QUEUE_TO_QUEUE = PublicHandler(
    name="queue to queue",
    repository="aws-samples/serverless-test-samples",
    commit="a801c92eda191dc1ed0caa4a866500775a861f0f",
    path="python-test-samples/apigw-sqs-lambda-sqs/src/process-input-queue/process_input_queue.py",
    licence="MIT-0",
    package=("python-test-samples/apigw-sqs-lambda-sqs/src/process-input-queue",),
    subject=Subject(
        handler="process_input_queue.lambda_handler",
        events=({"data": {"id": "t-1", "type": "TEST"}}, {"data": {"id": "t-2", "type": "TEST"}}),
        environment={"OUTPUT_QUEUE_NAME": "{queue:output}"},
        queues=("output",),
        batch_failures=False,
        timeout_seconds=5,
        visibility_seconds=5,
        max_receives=1,
    ),
    correction={"repeatable": ("output",), "max_receives": 5},
)

# Reads a CSV file that was put into a bucket and stores each row in a table.
_CSV_FILES = {
    "a.csv": "id,name,email\n1,Ada,ada@example.com\n2,Ben,ben@example.com\n",
    "b.csv": "id,name,email\n3,Cleo,cleo@example.com\n",
}


def _put_files() -> None:
    client = boto3.client("s3", region_name=_REGION)
    for key, text in _CSV_FILES.items():
        client.put_object(Bucket="uploads", Key=key, Body=text.encode())


def _created(key: str) -> dict[str, object]:
    return {"Records": [{"s3": {"bucket": {"name": "uploads"}, "object": {"key": key}}}]}


_CSV_IMPORT = PublicHandler(
    name="CSV import",
    repository=_SERVERLESS_PATTERNS,
    commit=_PATTERNS_COMMIT,
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


def _client_rows(first: str, second: str) -> dict[str, object]:
    puts = [{"PutRequest": {"Item": {"CLIENT-KEY": {"S": key}}}} for key in (first, second)]
    return {"CLIENT": puts}


# Writes the rows of a message with one BatchWriteItem; errors are logged.
_BATCH_INSERT = PublicHandler(
    name="batch insert",
    repository=_SERVERLESS_PATTERNS,
    commit=_PATTERNS_COMMIT,
    path="sqs-lambda-dynamodb-cdk/lambda_fns/insertRecord.py",
    licence="MIT-0",
    package=("sqs-lambda-dynamodb-cdk/lambda_fns",),
    subject=Subject(
        handler="insertRecord.handler",
        events=(_client_rows("1|0", "1|1"), _client_rows("2|0", "2|1")),
        tables=(Table("CLIENT", key="CLIENT-KEY"),),
        batch_failures=False,
        timeout_seconds=3,
        visibility_seconds=300,
    ),
)


def _frame(connection: str, request: str) -> dict[str, object]:
    ids = {"connectionId": connection, "requestId": request}
    attributes = {k: {"stringValue": v, "dataType": "String"} for k, v in ids.items()}
    return {"body": json.dumps({"text": request}), "messageAttributes": attributes}


# Answers each message over the WebSocket connection that it came by.
_WEBSOCKET_ANSWER = PublicHandler(
    name="WebSocket answer",
    repository=_SERVERLESS_PATTERNS,
    commit=_PATTERNS_COMMIT,
    path="apigw-websocket-api-sqs-lambda-terraform/src/app.py",
    licence="MIT-0",
    package=("apigw-websocket-api-sqs-lambda-terraform/src",),
    subject=Subject(
        handler="app.lambda_handler",
        events=({"Records": [_frame("c-1", "r-1"), _frame("c-2", "r-2")]},),
        environment={"ApiGatewayEndpoint": f"https://abc.execute-api.{_REGION}.amazonaws.com/dev"},
        fifo=True,
        batch_failures=False,
        timeout_seconds=15,
        visibility_seconds=30,
        skip=("in-parallel",),  # the function ends long before its messages are visible again
    ),
    correction={"repeatable": ("apigatewaymanagementapi.PostToConnection",)},
)

# Hands each message to a function with one environment for each tenant, which it does not wait for.
_TENANT_DISPATCH = PublicHandler(
    name="tenant dispatch",
    repository=_SERVERLESS_PATTERNS,
    commit=_PATTERNS_COMMIT,
    path="sqs-lambda-tenant-isolation-sam-py/sqs-processor/index.py",
    licence="MIT-0",
    package=("sqs-lambda-tenant-isolation-sam-py/sqs-processor",),
    subject=Subject(
        handler="index.handler",
        events=({"tenant": "t-1", "order": "o-1"}, {"tenant": "t-2", "order": "o-2"}),
        key="tenant",  # becomes the message group
        environment={"TENANT_ISOLATED_FUNCTION_NAME": "tenant-isolated-processor"},
        fifo=True,
        batch_failures=False,
        timeout_seconds=30,
        visibility_seconds=300,
        max_receives=3,
        # The function ends long before its messages are visible again, and another message of a
        # tenant is no duplicate.
        skip=("in-parallel", "other-content"),
    ),
    correction={"repeatable": ("tenant-isolated-processor",)},
)

# Stores the result of a test that came by a queue.
_TEST_RESULT = PublicHandler(
    name="result of a test",
    repository="aws-samples/serverless-test-samples",
    commit="a801c92eda191dc1ed0caa4a866500775a861f0f",
    path="python-test-samples/apigw-sqs-lambda-sqs/src/write-test-result/write_test_result.py",
    licence="MIT-0",
    package=("python-test-samples/apigw-sqs-lambda-sqs/src/write-test-result",),
    subject=Subject(
        handler="write_test_result.lambda_handler",
        events=tuple({"data": {"id": f"t-{n}", "message": "passed"}} for n in (1, 2)),
        environment={"TESTRESULTSTABLE_TABLE_NAME": "results"},
        tables=(Table("results", key="id"),),
        batch_failures=False,
        timeout_seconds=5,
        visibility_seconds=5,
    ),
)


def _request(number: str) -> dict[str, object]:
    attribute = {"stringValue": f"request-{number}", "dataType": "String"}
    body = json.dumps({"event_id": "concert", "visitor": number})
    return {"body": body, "messageAttributes": {"apig_request_id": attribute}}


def _waiting_room(url: str) -> PublicHandler:
    """Gives each request the next number of a counter in Redis, and keeps it in DynamoDB."""

    def reset() -> None:
        # Its client asks for TLS, which the lab's server does not have.
        vars(redis)["Redis"] = lambda **_: redis.client.Redis.from_url(url, decode_responses=True)
        redis.client.Redis.from_url(url).flushall()

    def counter() -> list[dict[str, object]]:
        number = redis.client.Redis.from_url(url, decode_responses=True).get("queue_counter")
        return [{"counter": "queue_counter", "number": number}]

    def create_secret() -> None:
        client = boto3.client("secretsmanager", region_name=_REGION)
        client.create_secret(Name="waiting-room/redis-auth", SecretString="none")

    return PublicHandler(
        name="waiting room",
        repository="aws-solutions/virtual-waiting-room-on-aws",
        commit="e43fb92d5d7d58248161c5c69ea7381e5bb3c727",
        path="source/core-api/lambda_functions/assign_queue_num.py",
        licence="Apache-2.0",
        package=(
            "source/core-api/lambda_functions/assign_queue_num.py",
            "source/core-api/lambda_functions/counters.py",
            "source/shared/virtual-waiting-room-on-aws-common/vwr",
        ),
        subject=Subject(
            handler="assign_queue_num.lambda_handler",
            events=({"Records": [_request("1"), _request("2")]},),
            environment={
                "SOLUTION_ID": "SO0166",
                "REDIS_HOST": "redis",
                "REDIS_PORT": "6379",
                "QUEUE_URL": "{source}",
                "EVENT_ID": "concert",
                "STACK_NAME": "waiting-room",
                "QUEUE_POSITION_ENTRYTIME_TABLE": "positions",
                "ENABLE_QUEUE_POSITION_EXPIRY": "true",
            },
            tables=(Table("positions", key="request_id", ttl=None),),
            methods=(
                Method(
                    "redis.client:Redis.execute_command",
                    unavailable=lambda: redis.ConnectionError("Connection refused"),
                ),
            ),
            stores=(Store("redis", reset, counter, key=("counter",)),),
            set_up=create_secret,
            # In which order requests get their numbers is open; the counter is compared.
            ignore=("positions.queue_position", "positions.entry_time"),
            batch_failures=False,
            timeout_seconds=30,
            visibility_seconds=30,
            max_receives=2,
        ),
        server="redis",
    )


_TELEMETRY_TABLE = """
CREATE TABLE IF NOT EXISTS telemetry (id text PRIMARY KEY, data jsonb, received_at timestamptz);
DELETE FROM telemetry;
"""


def _telemetry(url: str) -> PublicHandler:
    """Inserts a row into PostgreSQL for each message, and sends the outcome to a queue."""
    address = conninfo_to_dict(url) if url else {}

    def reset() -> None:
        with psycopg.connect(url) as connection:
            connection.execute(_TELEMETRY_TABLE)

    def rows() -> list[dict[str, object]]:
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT id, data::text FROM telemetry ORDER BY id")
            return [{"id": key, "data": data} for key, data in found]

    return PublicHandler(
        name="telemetry",
        repository="taimax13/platform-tool",
        commit="e9981d3a3768b3e4d15832f1fffa944430ed06a2",
        path="lambdas/telementary_processor_sqs_postgress_psg.py",
        licence="no licence",
        package=("lambdas/telementary_processor_sqs_postgress_psg.py",),
        subject=Subject(
            handler="telementary_processor_sqs_postgress_psg.lambda_handler",
            events=({"id": "t-1", "degrees": 21}, {"id": "t-2", "degrees": 22}),
            key="id",
            environment={
                "DB_HOST": str(address.get("host", "")),
                "DB_NAME": str(address.get("dbname", "")),
                "DB_USER": str(address.get("user", "")),
                "DB_PASSWORD": "",
                "OUTPUT_QUEUE_URL": "{queue:outcomes}",
            },
            queues=("outcomes",),
            methods=tuple(
                Method(
                    f"psycopg2.extensions:{path}",
                    unavailable=lambda: psycopg2.OperationalError("server closed the connection"),
                )
                for path in ("cursor.execute", "connection.commit")
            ),
            stores=(Store("telemetry", reset, rows, key=("id",)),),
            batch_failures=False,
            timeout_seconds=3,
            visibility_seconds=30,
        ),
        correction={"repeatable": ("outcomes",)},
        server="postgres",
    )


_WITH_SERVER = {"redis": _waiting_room, "postgres": _telemetry}


def ready(handler: PublicHandler, urls: Mapping[str, str]) -> PublicHandler:
    """Return a handler whose subject has the URL of its server; `urls` are by the server's name."""
    return _WITH_SERVER[handler.server](urls[handler.server]) if handler.server else handler


ALL = (
    _DOCUMENT_QUEUE,
    _POWERTOOLS_BATCH,
    _ORDER_PERSISTER,
    _EMAIL_REMEDIATION,
    _DELAYED_FIFO,
    _FIFO_TO_SNS,
    _QUEUE_TO_QUEUE,
    _CSV_IMPORT,
    _BATCH_INSERT,
    _WEBSOCKET_ANSWER,
    _TENANT_DISPATCH,
    _TEST_RESULT,
    *(make("") for make in _WITH_SERVER.values()),
)
"""All handlers."""
