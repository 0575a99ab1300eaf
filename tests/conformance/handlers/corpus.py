"""Handlers of a few lines, right and wrong of one kind each. `test_corpus.py` has the verdicts."""

import io
import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

Event = dict[str, Any]

client, s3, sfn = boto3.client("dynamodb"), boto3.client("s3"), boto3.client("stepfunctions")
events, sqs = boto3.client("events"), boto3.client("sqs")
table = boto3.resource("dynamodb").Table
NEW = "attribute_not_exists(order_id)"
CONDITION = "ConditionalCheckFailedException"
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:orders"


def bodies(event: Event) -> list[Event]:
    return [json.loads(record["body"]) for record in event["Records"]]


def add(order: Event) -> Event:
    return {
        "TableName": "totals",
        "Key": {"customer": {"S": order["customer"]}},
        "UpdateExpression": "ADD paid :amount",
        "ExpressionAttributeValues": {":amount": {"N": str(order["amount"])}},
    }


def put(order: Event, **more: Any) -> Event:
    marker = {"order_id": {"S": order["order_id"]}, **more}
    return {"TableName": "orders", "Item": marker, "ConditionExpression": NEW}


def once(*writes: Event, **more: Any) -> None:
    """Make writes in one transaction, whose first has a condition; a duplicate has no effect."""
    try:
        client.transact_write_items(TransactItems=[*writes], **more)
    except client.exceptions.TransactionCanceledException as error:
        if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
            raise


def token_and_condition(event: Event, _: Any) -> None:
    for order in bodies(event):
        token = order["order_id"]
        once({"Put": put(order)}, {"Update": add(order)}, ClientRequestToken=token)


def token_only(event: Event, _: Any) -> None:
    for order in bodies(event):
        client.transact_write_items(
            TransactItems=[{"Update": add(order)}], ClientRequestToken=order["order_id"]
        )


def exits_at_once(_: Event, __: Any) -> None:
    os._exit(0)


def exits_on_duplicates(event: Event, _: Any) -> None:
    for order in bodies(event):
        if "Item" in table("orders").get_item(Key={"order_id": order["order_id"]}):
            os._exit(0)
        table("orders").put_item(Item={"order_id": order["order_id"]})


def aborts_on_duplicates(event: Event, _: Any) -> None:
    for order in bodies(event):
        if "Item" in table("orders").get_item(Key={"order_id": order["order_id"]}):
            os.kill(os.getpid(), signal.SIGKILL)
        table("orders").put_item(Item={"order_id": order["order_id"]})


def hangs_on_duplicates(event: Event, _: Any) -> None:
    for order in bodies(event):
        while "Item" in table("orders").get_item(Key={"order_id": order["order_id"]}):
            while True:
                pass
        table("orders").put_item(Item={"order_id": order["order_id"]})


def waits_for_its_end(_: Event, context: Any) -> None:
    while context.get_remaining_time_in_millis() > 0:
        pass


def retries_without_bound(event: Event, _: Any) -> None:
    for order in bodies(event):
        while True:
            try:
                table("missing").put_item(Item=order)
                break
            except ClientError:
                pass


def uploads_a_stream(event: Event, _: Any) -> None:
    for order in bodies(event):
        body = io.BytesIO(json.dumps(order).encode())
        s3.put_object(Bucket="files", Key=order["order_id"], Body=body)


def uploads_a_file(event: Event, _: Any) -> None:
    for order in bodies(event):
        with tempfile.NamedTemporaryFile("w") as file:
            json.dump(order, file)
            file.flush()
            s3.upload_file(file.name, "files", order["order_id"])


def uploads_under_a_new_name(event: Event, context: Any) -> None:
    for order in bodies(event):
        key = f"{order['order_id']}-{context.aws_request_id}"
        s3.put_object(Bucket="files", Key=key, Body=io.BytesIO(b"order"))


def starts_by_name(event: Event, _: Any) -> None:
    for order in bodies(event):
        sfn.start_execution(
            stateMachineArn=MACHINE, name=order["order_id"], input=json.dumps(order)
        )


def starts(event: Event, _: Any) -> None:
    for order in bodies(event):
        sfn.start_execution(stateMachineArn=MACHINE, input=json.dumps(order))


def marks_in_a_file(event: Event, _: Any) -> None:
    for order in bodies(event):
        marker = Path(os.environ["FOLDER"], order["order_id"])
        if not marker.exists():
            marker.write_text("done")
            client.update_item(**add(order))


def marks_in_sqlite(event: Event, _: Any) -> None:
    with sqlite3.connect(Path(os.environ["FOLDER"], "markers.db")) as markers:
        markers.execute("CREATE TABLE IF NOT EXISTS markers (id TEXT PRIMARY KEY)")
        for order in bodies(event):
            try:
                markers.execute("INSERT INTO markers VALUES (?)", [order["order_id"]])
            except sqlite3.IntegrityError:
                continue
            client.update_item(**add(order))


def caches_in_a_file(event: Event, _: Any) -> None:
    cache = Path(os.environ["FOLDER"], "settings.json")
    if not cache.exists():
        cache.write_text('{"currency": "EUR"}')
    for order in bodies(event):
        table("orders").put_item(Item={**order, **json.loads(cache.read_text())})


def inserts_rows(event: Event, _: Any) -> None:
    with closing(sqlite3.connect(os.environ["DATABASE"])) as connection:
        for order in bodies(event):
            connection.execute("INSERT INTO orders VALUES (?)", [order["order_id"]])
            connection.commit()


def inserts_rows_once(event: Event, _: Any) -> None:
    with closing(sqlite3.connect(os.environ["DATABASE"])) as connection:
        for order in bodies(event):
            cursor = connection.cursor()
            cursor.execute("INSERT OR IGNORE INTO single VALUES (?)", [order["order_id"]])
            connection.commit()


def starts_a_process(event: Event, _: Any) -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    for order in bodies(event):
        table("orders").put_item(Item=order)


def loses_unprocessed_items(event: Event, _: Any) -> None:
    puts = [{"PutRequest": {"Item": put(order)["Item"]}} for order in bodies(event)]
    client.batch_write_item(RequestItems={"orders": puts})


def writes_unprocessed_items(event: Event, _: Any) -> None:
    with table("orders").batch_writer() as batch:
        for order in bodies(event):
            batch.put_item(Item=order)


def entries(event: Event) -> list[Event]:
    return [
        {
            "Source": "shop",
            "DetailType": "paid",
            "Detail": json.dumps(order),
            "EventBusName": "shop",
        }
        for order in bodies(event)
    ]


def loses_failed_entries(event: Event, _: Any) -> None:
    events.put_events(Entries=entries(event))


def reports_failed_entries(event: Event, _: Any) -> None:
    if events.put_events(Entries=entries(event))["FailedEntryCount"]:
        raise RuntimeError("the bus refused an event")


def sends_without_looking(event: Event, _: Any) -> None:
    batch = [
        {"Id": str(n), "MessageBody": json.dumps(order)} for n, order in enumerate(bodies(event))
    ]
    sqs.send_message_batch(QueueUrl=os.environ["MAILS"], Entries=batch)


def inserts_by_statement(event: Event, _: Any) -> None:
    for order in bodies(event):
        statement = f"""INSERT INTO "orders" VALUE {{'order_id': '{order["order_id"]}'}}"""
        with suppress(client.exceptions.DuplicateItemException):
            client.execute_statement(Statement=statement)


def adds_by_reading(event: Event, _: Any) -> None:
    for order in bodies(event):
        key = {"customer": order["customer"]}
        found = table("totals").get_item(Key=key, ConsistentRead=True).get("Item", {"orders": {}})
        known = {**found["orders"], order["order_id"]: order["amount"]}
        table("totals").put_item(Item={**key, "orders": known})


def adds_in_one_write(event: Event, _: Any) -> None:
    for order in bodies(event):
        table("totals").update_item(
            Key={"customer": order["customer"]},
            UpdateExpression="ADD orders :id",
            ExpressionAttributeValues={":id": {order["order_id"]}},
        )


def marks_its_batch(event: Event, _: Any) -> None:
    digest = sha256("".join(sorted(r["body"] for r in event["Records"])).encode()).hexdigest()
    updates = [{"Update": add(order)} for order in bodies(event)]
    once({"Put": put({"order_id": digest})}, *updates)


def _marks_for(event: Event, days: int) -> None:
    for order in bodies(event):
        expires_at = {"N": str(int(time.time()) + days * 86400)}
        once({"Put": put(order, expires_at=expires_at)}, {"Update": add(order)})


def marks_for_a_day(event: Event, _: Any) -> None:
    _marks_for(event, 1)


def marks_for_a_month(event: Event, _: Any) -> None:
    _marks_for(event, 30)


def _adds_unless_found(event: Event, *, consistent: bool) -> None:
    for order in bodies(event):
        key = {"order_id": order["order_id"]}
        if "Item" not in table("orders").get_item(Key=key, ConsistentRead=consistent):
            client.transact_write_items(
                TransactItems=[
                    {"Put": {k: v for k, v in put(order).items() if k != "ConditionExpression"}},
                    {"Update": add(order)},
                ]
            )


def reads_an_old_state(event: Event, _: Any) -> None:
    _adds_unless_found(event, consistent=False)


def reads_the_latest_state(event: Event, _: Any) -> None:
    _adds_unless_found(event, consistent=True)


def reads_a_notification(event: Event, _: Any) -> None:
    for notification in bodies(event):
        order = json.loads(notification["Message"])
        once({"Put": put(order)}, {"Update": add(order)})


def forgets_the_second(event: Event, _: Any) -> None:
    order = json.loads(bodies(event)[0]["Message"])
    once({"Put": put(order)}, {"Update": add(order)})


def gives_up_at_the_third(event: Event, _: Any) -> Event:
    failures = []
    for record in event["Records"]:
        try:
            order = json.loads(record["body"])
            if int(record["attributes"]["ApproximateReceiveCount"]) <= 2:
                once({"Put": put(order)}, {"Update": add(order)})
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def catches_wrong_json(event: Event, _: Any) -> Event:
    failures = []
    for record in event["Records"]:
        try:
            order = json.loads(record["body"])
        except json.JSONDecodeError:
            failures.append({"itemIdentifier": record["messageId"]})
        else:
            once({"Put": put(order)}, {"Update": add(order)})
    return {"batchItemFailures": failures}


def spawns_a_process(event: Event, _: Any) -> None:
    for order in bodies(event):
        multiprocessing.get_context("spawn").Process(target=print, args=(order,)).start()


def invokes_a_function(event: Event, _: Any) -> None:
    for record in event["Records"]:
        boto3.client("lambda").invoke(
            FunctionName="mailer", InvocationType="Event", Payload=record["body"]
        )


def writes_what_it_is_told(event: Event, _: Any) -> Event:
    failures = []
    for record in event["Records"]:
        try:
            client.batch_write_item(RequestItems=json.loads(record["body"]))
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}
