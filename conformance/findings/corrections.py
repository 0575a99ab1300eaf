"""Corrections of public handlers: the same work, written so that a check passes."""

import csv
import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import boto3
import psycopg2
import redis

Event = dict[str, Any]


def document_queue(event: Event, _: object) -> Event:
    """Count a document once, beside a marker of it; start its execution under a name."""
    dynamodb, steps = boto3.client("dynamodb"), boto3.client("stepfunctions")
    table = os.environ["CONCURRENCY_TABLE"]

    def start(record: Event) -> None:
        name = hashlib.sha256(json.loads(record["body"])["id"].encode()).hexdigest()
        marker = {
            "TableName": table,
            "Item": {"counter_id": {"S": f"document {name}"}},
            "ConditionExpression": "attribute_not_exists(counter_id)",
        }
        count = {
            "TableName": table,
            "Key": {"counter_id": {"S": "workflow_counter"}},
            "UpdateExpression": "ADD active_count :one",
            "ConditionExpression": "active_count < :max",
            "ExpressionAttributeValues": {
                ":one": {"N": "1"},
                ":max": {"N": os.environ["MAX_CONCURRENT"]},
            },
        }
        try:
            dynamodb.transact_write_items(TransactItems=[{"Put": marker}, {"Update": count}])
        except dynamodb.exceptions.TransactionCanceledException as error:
            if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
                raise
        machine = os.environ["STATE_MACHINE_ARN"]
        with suppress(steps.exceptions.ExecutionAlreadyExists):
            steps.start_execution(stateMachineArn=machine, name=name, input=record["body"])

    return _by_message(event, start)


def powertools_batch_with_idempotency(event: Event, _: object) -> Event:
    """Store the result under the order's id, in the write that is the effect."""
    table = boto3.resource("dynamodb").Table(os.environ["IDEMPOTENCY_TABLE"])

    def store(record: Event) -> None:
        item = {"id": json.loads(record["body"])["order_id"], "message": record["body"]}
        with suppress(table.meta.client.exceptions.ConditionalCheckFailedException):
            table.put_item(Item=item, ConditionExpression="attribute_not_exists(id)")

    return _by_message(event, store)


def order_persister(event: Event, _: object) -> Event:
    """Alert only if the order that is stored came by another event."""
    table = boto3.resource("dynamodb").Table(os.environ["DYNAMODB_TABLE"])

    def persist(record: Event) -> None:
        envelope = json.loads(record["body"])
        order = envelope["detail"]
        item = {
            "orderId": order["pedidoId"],
            "clientId": order["clienteId"],
            "items": order["itens"],
            "eventTime": envelope["time"],
        }
        try:
            table.put_item(Item=item, ConditionExpression="attribute_not_exists(orderId)")
        except table.meta.client.exceptions.ConditionalCheckFailedException:
            found = table.get_item(Key={"orderId": item["orderId"]}, ConsistentRead=True)
            if found["Item"] != item:
                topic = os.environ["SNS_TOPIC_ARN"]
                boto3.client("sns").publish(TopicArn=topic, Message=json.dumps(envelope))

    return _by_message(event, persist)


def email_remediation(event: Event, _: object) -> Event:
    """Report what fails, and send nothing then. The consumers drop a messageId that they know."""

    def send(record: Event) -> None:
        message = json.loads(record["body"])
        email = message["payload"]["email"]
        is_repaired = email.endswith(".con")
        message["payload"]["email"] = email.removesuffix(".con") + ".com" * is_repaired
        queue = os.environ["MAIN_QUEUE_URL" if is_repaired else "FATAL_DLQ_URL"]
        boto3.client("sqs").send_message(QueueUrl=queue, MessageBody=json.dumps(message))

    return _by_message(event, send)


def delayed_fifo(event: Event, _: object) -> Event:
    """Let one message a minute through. The consumer downstream drops a message that it knows."""
    table = boto3.resource("dynamodb").Table(os.environ["TABLE_NAME"])

    def forward(record: Event) -> None:
        customer, now = record["attributes"]["MessageGroupId"], int(time.time())
        found = table.get_item(Key={"customer_id": customer}, ConsistentRead=True).get("Item")
        if found and found["ttl"] >= now:
            raise RuntimeError("another message of the customer was sent in this minute")
        boto3.client("sqs").send_message(
            QueueUrl=os.environ["QUEUE_URL"], MessageBody=record["body"], MessageGroupId=customer
        )
        table.put_item(Item={"customer_id": customer, "ttl": now + 60})

    return _by_message(event, forward)


def fifo_to_sns(event: Event, _: object) -> Event:
    """Report failures by message group. A subscriber drops a notification that it knows."""

    def publish(record: Event) -> None:
        if not isinstance(json.loads(record["body"]), dict):
            raise TypeError("the message is no JSON object")
        boto3.client("sns").publish(TopicArn=os.environ["TOPIC_ARN"], Message=record["body"])

    return _by_message(event, publish)


def queue_to_queue(event: Event, _: object) -> Event:
    """Report failures by message. The consumer of the output queue drops an id that it knows."""

    def send(record: Event) -> None:
        queue = os.environ["OUTPUT_QUEUE_NAME"]
        boto3.client("sqs").send_message(QueueUrl=queue, MessageBody=record["body"])

    return _by_message(event, send)


def csv_import(event: Event, _: object) -> Event:
    """Report failures by message: the other files are stored, and do not come back."""
    table, s3 = boto3.resource("dynamodb").Table("employeeInfoNew"), boto3.client("s3")

    def store(record: Event) -> None:
        created = json.loads(record["body"])["Records"][0]["s3"]
        found = s3.get_object(Bucket=created["bucket"]["name"], Key=created["object"]["key"])
        for row in csv.DictReader(found["Body"].read().decode().splitlines()):
            table.put_item(Item={"name": row["name"], "email": row["email"]})

    return _by_message(event, store)


def batch_insert(event: Event, _: object) -> Event:
    """Write what DynamoDB did not process again; report what fails, by message."""
    client = boto3.client("dynamodb")

    def write(record: Event) -> None:
        requests = json.loads(record["body"])
        if not requests:
            raise ValueError("the message has no rows")
        while requests:  # in production with a pause that grows
            requests = client.batch_write_item(RequestItems=requests).get("UnprocessedItems")

    return _by_message(event, write)


def websocket_answer(event: Event, _: object) -> Event:
    """Report failures by message group. The client drops an answer whose requestId it knows."""
    client = boto3.client("apigatewaymanagementapi", endpoint_url=os.environ["ApiGatewayEndpoint"])  # noqa: SIM112 - its name

    def answer(record: Event) -> None:
        ids = {name: each["stringValue"] for name, each in record["messageAttributes"].items()}
        connection = ids["connectionId"]
        data = json.dumps({**ids, "message": record["body"]})
        client.post_to_connection(ConnectionId=connection, Data=data.encode())

    return _by_message(event, answer)


def tenant_dispatch(event: Event, _: object) -> Event:
    """Report failures by message group. The function drops an order whose id it knows."""
    client = boto3.client("lambda")

    def invoke(record: Event) -> None:
        if not isinstance(json.loads(record["body"]), dict):
            raise TypeError("the message is no JSON object")
        client.invoke(
            FunctionName=os.environ["TENANT_ISOLATED_FUNCTION_NAME"],
            InvocationType="Event",
            Payload=record["body"],
            TenantId=record["attributes"]["MessageGroupId"],
        )

    return _by_message(event, invoke)


def result_of_a_test(event: Event, _: object) -> Event:
    """Report failures by message: the others are stored, and do not come back."""
    results = boto3.resource("dynamodb").Table(os.environ["TESTRESULTSTABLE_TABLE_NAME"])

    def store(record: Event) -> None:
        data = json.loads(record["body"])["data"]
        queue = record["eventSourceARN"].rpartition(":")[2]
        results.put_item(Item={"id": data["id"], "Queue_Name": queue, "Message": data["message"]})

    return _by_message(event, store)


_NEXT_NUMBER = """
local known = redis.call('HGET', KEYS[2], ARGV[1])
if known then return tonumber(known) end
local number = redis.call('INCR', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[1], number)
return number
"""


def waiting_room(event: Event, _: object) -> Event:
    """Give a request its number in one script, which also remembers it; keep it in DynamoDB."""
    numbers: Any = redis.Redis(host=os.environ["REDIS_HOST"], port=int(os.environ["REDIS_PORT"]))
    positions = boto3.resource("dynamodb").Table(os.environ["QUEUE_POSITION_ENTRYTIME_TABLE"])

    def assign(record: Event) -> None:
        request = record["messageAttributes"]["apig_request_id"]["stringValue"]
        if json.loads(record["body"])["event_id"] != os.environ["EVENT_ID"]:
            return
        number = int(numbers.eval(_NEXT_NUMBER, 2, "queue_counter", "numbers", request))
        item = {"request_id": request, "queue_position": number, "entry_time": int(time.time())}
        with suppress(positions.meta.client.exceptions.ConditionalCheckFailedException):
            positions.put_item(Item=item, ConditionExpression="attribute_not_exists(request_id)")

    return _by_message(event, assign)


def telemetry(event: Event, _: object) -> Event:
    """Insert a row once, and refuse other data for it. The receiver drops an outcome it knows."""
    connection = psycopg2.connect(host=os.environ["DB_HOST"], user=os.environ["DB_USER"])
    queue = boto3.client("sqs")

    def insert(record: Event) -> None:
        data = json.loads(record["body"])
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO telemetry VALUES (%s, %s, now()) "
                "ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING data",
                [data["id"], record["body"]],
            )
            [(stored,)] = cursor
            if stored != data:
                raise ValueError("the id is that of another message")
        outcome = json.dumps({"status": "processed", "id": data["id"]})
        queue.send_message(QueueUrl=os.environ["OUTPUT_QUEUE_URL"], MessageBody=outcome)

    with closing(connection):
        return _by_message(event, insert)


def _by_message(event: Event, work: Callable[[Event], None]) -> Event:
    """Work on each message; after one that fails, the rest of its group fails too."""
    failures: list[dict[str, str]] = []
    groups = set()
    for record in event["Records"]:
        group = record["attributes"].get("MessageGroupId", record["messageId"])
        try:
            if group not in groups:
                work(record)
                continue
        except Exception:
            groups.add(group)
        failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}
