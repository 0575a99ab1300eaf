"""Right and wrong handlers, a few lines each; `test_right_and_wrong.py` has the verdicts."""

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
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from decimal import Decimal
from functools import cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import boto3
import psycopg2
import psycopg2.extras
import urllib3
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from botocore.exceptions import BotoCoreError, ClientError

Event = dict[str, Any]

client, aws, resource = boto3.client("dynamodb"), cache(boto3.client), cache(boto3.resource)
http, pool, processor = (
    urllib3.PoolManager(),
    ThreadPoolExecutor(max_workers=4),
    BatchProcessor(event_type=EventType.SQS),
)
NEW = "attribute_not_exists(order_id)"
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:orders"


def table(name: str) -> Any:
    return resource("dynamodb").Table(name)


def bodies(event: Event) -> list[Event]:
    return [json.loads(record["body"]) for record in event["Records"]]


def by_message(event: Event, process: Callable[[Event], object]) -> Event:
    """Process the records one by one, and report those that fail."""
    failures = []
    for record in event["Records"]:
        try:
            process(json.loads(record["body"]))
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


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


def add_once(order: Event) -> None:
    once({"Put": put(order)}, {"Update": add(order)})


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


def hangs_at_once(_: Event, __: Any) -> None:
    Path(os.environ["MARKER"]).touch()
    while True:
        pass


def writes_to_a_descriptor(event: Event, _: Any) -> None:
    for order in bodies(event):
        os.write(1, b"not a report")
        table("orders").put_item(Item=order)


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
        aws("s3").put_object(Bucket="files", Key=order["order_id"], Body=body)


def uploads_a_file(event: Event, _: Any) -> None:
    for order in bodies(event):
        with tempfile.NamedTemporaryFile("w") as file:
            json.dump(order, file)
            file.flush()
            aws("s3").upload_file(file.name, "files", order["order_id"])


def copies_a_file(event: Event, _: Any) -> None:
    for order in bodies(event):
        found = aws("s3").get_object(Bucket="files", Key=order["order_id"])
        aws("s3").put_object(Bucket="files", Key="copy", Body=found["Body"].read())


def uploads_under_a_new_name(event: Event, context: Any) -> None:
    for order in bodies(event):
        key = f"{order['order_id']}-{context.aws_request_id}"
        aws("s3").put_object(Bucket="files", Key=key, Body=io.BytesIO(b"order"))


def starts_by_name(event: Event, _: Any) -> None:
    for order in bodies(event):
        aws("stepfunctions").start_execution(
            stateMachineArn=MACHINE, name=order["order_id"], input=json.dumps(order)
        )


def starts_by_name_once(event: Event, _: Any) -> None:
    for record in event["Records"]:
        with suppress(aws("stepfunctions").exceptions.ExecutionAlreadyExists):
            starts_by_name({"Records": [record]}, None)


def queries_with_a_token(event: Event, _: Any) -> None:
    for order in bodies(event):
        aws("athena").start_query_execution(
            QueryString=f"INSERT INTO orders VALUES ('{order['order_id']}')",
            ClientRequestToken=f"{order['order_id']:0>32}",
        )


def starts(event: Event, _: Any) -> None:
    for order in bodies(event):
        aws("stepfunctions").start_execution(stateMachineArn=MACHINE, input=json.dumps(order))


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


def counts_rows(event: Event, _: Any) -> None:
    with closing(psycopg2.connect(os.environ["DATABASE_URL"])) as connection:
        for order in bodies(event):
            with connection, connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO orders VALUES (%s, %s, '') ON CONFLICT (order_id) "
                    "DO UPDATE SET amount = orders.amount + excluded.amount",
                    [order["order_id"], order["amount"]],
                )


def counts_rows_once(event: Event, _: Any) -> None:
    connection = psycopg2.connect(
        os.environ["DATABASE_URL"], cursor_factory=psycopg2.extras.RealDictCursor
    )
    with closing(connection):
        for order in bodies(event):
            with connection, connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO processed_messages VALUES (%s) ON CONFLICT DO NOTHING "
                    "RETURNING message_key",
                    [order["order_id"]],
                )
                if [row["message_key"] for row in cursor] == [order["order_id"]]:
                    psycopg2.extras.execute_values(
                        cursor,
                        "INSERT INTO orders VALUES %s",
                        [(order["order_id"], order["amount"], "")],
                    )


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
    aws("events").put_events(Entries=entries(event))


def reports_failed_entries(event: Event, _: Any) -> None:
    if aws("events").put_events(Entries=entries(event))["FailedEntryCount"]:
        raise RuntimeError("the bus refused an event")


def sends_without_looking(event: Event, _: Any) -> None:
    batch = [
        {"Id": str(n), "MessageBody": json.dumps(order)} for n, order in enumerate(bodies(event))
    ]
    aws("sqs").send_message_batch(QueueUrl=os.environ["MAILS"], Entries=batch)


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


def asks_a_model(event: Event, _: Any) -> None:
    for order in bodies(event):
        asked = [{"role": "user", "content": [{"text": order["order_id"]}]}]
        aws("bedrock-runtime").converse(modelId="model", messages=asked)
        aws("comprehend").detect_sentiment(Text="good", LanguageCode="en")
        aws("translate").translate_text(
            Text="good", SourceLanguageCode="en", TargetLanguageCode="de"
        )
        table("orders").put_item(Item=order)


def asks_for_a_report(event: Event, _: Any) -> None:
    for _order in bodies(event):
        aws("iam").generate_credential_report()


def replaces_by_http(event: Event, _: Any) -> None:
    for record, order in zip(event["Records"], bodies(event), strict=True):
        url = f"https://shop.example/orders/{order['order_id']}"
        http.request("PUT", url, body=record["body"])
        http.request("DELETE", f"{url}/draft")


def replaces_by_http_each_time(event: Event, _: Any) -> None:
    for order in bodies(event):
        attempt = {"amount": order["amount"], "attempt": str(uuid.uuid4())}
        http.request("PUT", f"https://shop.example/orders/{order['order_id']}", json=attempt)


def has_an_endpoint(event: Event, _: Any) -> None:
    url = "http://localhost:4566"
    for order in bodies(event):
        item = {"order_id": {"S": order["order_id"]}}
        boto3.client("dynamodb", endpoint_url=url).put_item(TableName="orders", Item=item)


def _book(event: Event, refund: Callable[[Event], object]) -> Event:
    def book(message: Event) -> None:
        if message["kind"] == "placed":
            add_once(message)
        elif message["kind"] == "noted":
            table("orders").put_item(Item={"order_id": message["note_id"]})
        else:
            refund(message)

    return by_message(event, book)


def books_each_kind(event: Event, _: Any) -> Event:
    return _book(event, lambda refund: client.update_item(**add(refund)))


def books_each_kind_once(event: Event, _: Any) -> Event:
    return _book(event, add_once)


def remembers_the_last(event: Event, _: Any) -> None:
    for order in bodies(event):
        with suppress(client.exceptions.ConditionalCheckFailedException):
            table("totals").update_item(
                Key={"customer": order["customer"]},
                UpdateExpression="SET latest = :id ADD paid :amount",
                ConditionExpression="attribute_not_exists(latest) OR latest <> :id",
                ExpressionAttributeValues={":id": order["order_id"], ":amount": order["amount"]},
            )


def remembers_each(event: Event, _: Any) -> None:
    for order in bodies(event):
        add_once(order)


def appends_to_a_file(event: Event, _: Any) -> None:
    for order in bodies(event):
        place = {"Bucket": "files", "Key": order["customer"]}
        try:
            known = aws("s3").get_object(**place)["Body"].read().decode().splitlines()
        except aws("s3").exceptions.NoSuchKey:
            known = []
        if order["order_id"] not in known:
            aws("s3").put_object(**place, Body="\n".join([*known, order["order_id"]]))


def files_each_order(event: Event, _: Any) -> None:
    for order in bodies(event):
        aws("s3").put_object(
            Bucket="files", Key=f"{order['customer']}/{order['order_id']}", Body=b""
        )


def _moved(transfer: Event, account: str, amount: int) -> Event:
    return {
        "TableName": "accounts",
        "Key": {"id": {"S": transfer[account]}},
        "UpdateExpression": "SET done.#id = :amount ADD balance :amount",
        "ConditionExpression": "attribute_not_exists(done.#id)",
        "ExpressionAttributeNames": {"#id": transfer["transfer_id"]},
        "ExpressionAttributeValues": {":amount": {"N": str(amount)}},
    }


def transfers_in_two_writes(event: Event, _: Any) -> None:
    for transfer in bodies(event):
        with suppress(client.exceptions.ConditionalCheckFailedException):
            client.update_item(**_moved(transfer, "source", -transfer["amount"]))
            client.update_item(**_moved(transfer, "target", transfer["amount"]))


def transfers_in_one_write(event: Event, _: Any) -> None:
    for transfer in bodies(event):
        once(
            {"Update": _moved(transfer, "source", -transfer["amount"])},
            {"Update": _moved(transfer, "target", transfer["amount"])},
        )


def counts_its_jobs_once(event: Event, _: Any) -> None:
    for order in bodies(event):
        with suppress(client.exceptions.ConditionalCheckFailedException):
            table("totals").update_item(
                Key={"customer": order["customer"]},
                UpdateExpression="ADD used :one, jobs :job",
                ConditionExpression="attribute_not_exists(jobs) OR NOT contains(jobs, :id)",
                ExpressionAttributeValues={
                    ":one": 1,
                    ":job": {order["order_id"]},
                    ":id": order["order_id"],
                },
            )


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
        add_once(order)


def forgets_the_second(event: Event, _: Any) -> None:
    add_once(json.loads(bodies(event)[0]["Message"]))


def catches_wrong_json(event: Event, _: Any) -> Event:
    failures = []
    for record in event["Records"]:
        try:
            order = json.loads(record["body"])
        except json.JSONDecodeError:
            failures.append({"itemIdentifier": record["messageId"]})
        else:
            add_once(order)
    return {"batchItemFailures": failures}


def spawns_a_process(event: Event, _: Any) -> None:
    for order in bodies(event):
        multiprocessing.get_context("spawn").Process(target=print, args=(order,)).start()


def invokes_a_function(event: Event, _: Any) -> None:
    for record in event["Records"]:
        aws("lambda").invoke(FunctionName="mailer", InvocationType="Event", Payload=record["body"])


def writes_what_it_is_told(event: Event, _: Any) -> Event:
    return by_message(event, lambda body: client.batch_write_item(RequestItems=body))


def charge(order: Event, key: str) -> None:
    found = table("orders").get_item(Key={"order_id": order["order_id"]}, ConsistentRead=True)
    if "Item" in found:
        if found["Item"]["amount"] != order["amount"]:
            raise ValueError("the order was charged with another amount")
        return
    answer = http.request(
        "POST",
        "https://pay.example/charges",
        headers={"Idempotency-Key": key},
        json={"amount": order["amount"]},
    )
    table("orders").put_item(Item={**order, "charge": answer.json()["id"]})


def charges_with_a_fresh_key(event: Event, context: Any) -> Any:
    def process(record: Any) -> None:
        charge(record.json_body, str(uuid.uuid4()))

    return process_partial_response(event, process, processor, context)


def charges_with_its_own_key(event: Event, _: Any) -> Event:
    return by_message(event, lambda order: charge(order, order["order_id"]))


def locks_without_a_lease(event: Event, _: Any) -> Event:
    def store(order: Event) -> None:
        lock = {"order_id": order["order_id"]}
        try:
            table("locks").put_item(Item=lock, ConditionExpression=NEW)
        except client.exceptions.ConditionalCheckFailedException:
            aws("sqs").send_message(
                QueueUrl=os.environ["SOURCE"], MessageBody=json.dumps(order), DelaySeconds=60
            )
            return
        table("orders").put_item(Item=order)
        table("locks").delete_item(Key=lock)

    return by_message(event, store)


def counts_beside_its_put(event: Event, _: Any) -> Event:
    def count(order: Event) -> None:
        with suppress(client.exceptions.ConditionalCheckFailedException):
            client.put_item(**put(order))
            client.update_item(**add(order))

    return by_message(event, count)


def swallows_errors(event: Event, _: Any) -> Event:
    def store(order: Event) -> None:
        item = {name: order[name] for name in ("order_id", "amount")}
        with suppress(BotoCoreError, ClientError):
            table("orders").put_item(Item=item)

    return by_message(event, store)


def takes_a_conflict_for_a_duplicate(event: Event, _: Any) -> Event:
    def count(order: Event) -> None:
        with suppress(client.exceptions.TransactionCanceledException):
            client.transact_write_items(TransactItems=[{"Put": put(order)}, {"Update": add(order)}])

    return by_message(event, count)


def looks_up_its_batch_first(event: Event, _: Any) -> None:
    keys = [{"order_id": order["order_id"]} for order in bodies(event)]
    known = [k for k in keys if "Item" in table("orders").get_item(Key=k, ConsistentRead=True)]
    for order in bodies(event):
        if {"order_id": order["order_id"]} not in known:
            table("orders").put_item(Item=order)
            client.update_item(**add(order))


def _answered(event: Event) -> set[str]:
    duplicates = set()
    for order in bodies(event):
        try:
            client.put_item(**put(order))
        except client.exceptions.ConditionalCheckFailedException:
            duplicates.add(order["order_id"])
    return duplicates


def answers_with_a_set(event: Event, _: Any) -> Event:
    duplicates = _answered(event)
    return {"duplicates": duplicates} if duplicates else {}


def answers_with_decimals_and_bytes(event: Event, _: Any) -> Event:
    return {name: [Decimal(1), name.encode()] for name in _answered(event)}


async def is_a_coroutine(event: Event, _: Any) -> None:
    _answered(event)


def answers_before_its_work(event: Event, _: Any) -> None:
    def store(order: Event) -> None:
        table("orders").put_item(Item=order)

    for order in bodies(event):
        pool.submit(store, order)


# Sound: no fault makes a difference.


def adds_each_once(event: Event, _: Any) -> Event:
    return by_message(event, add_once)


def works_in_a_pool(event: Event, _: Any) -> Event:
    def process(record: Event) -> Event:
        return by_message({"Records": [record]}, add_once)

    answers = [answer["batchItemFailures"] for answer in pool.map(process, event["Records"])]
    return {"batchItemFailures": [*chain(*answers)]}


def remembers_a_digest(event: Event, context: Any) -> Any:
    def count(record: Any) -> None:
        order = record.json_body
        digest = {"S": sha256(f"{order['customer']} {order['amount']}".encode()).hexdigest()}
        expires_at = {"N": str(int(time.time()) + 30 * 86400)}
        marker = put(order, digest=digest, expires_at=expires_at)
        marker["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        try:
            client.transact_write_items(TransactItems=[{"Put": marker}, {"Update": add(order)}])
        except client.exceptions.TransactionCanceledException as error:
            if error.response["CancellationReasons"][0].get("Item", {}).get("digest") != digest:
                raise

    return process_partial_response(event, count, processor, context)


def announces_after_its_put(event: Event, _: Any) -> Event:
    """A duplicate is announced again: its first delivery may have ended before."""

    def announce(order: Event) -> None:
        with suppress(client.exceptions.ConditionalCheckFailedException):
            client.put_item(**put(order))
        aws("sns").publish(TopicArn=os.environ["TOPIC"], Message=order["order_id"])

    return by_message(event, announce)


def keeps_the_latest(event: Event, _: Any) -> Event:
    def keep(order: Event) -> None:
        with suppress(client.exceptions.ConditionalCheckFailedException):
            table("orders").put_item(
                Item=order,
                ConditionExpression="attribute_not_exists(order_id) OR version < :version",
                ExpressionAttributeValues={":version": order["version"]},
            )

    return by_message(event, keep)


def stores_the_first(event: Event, _: Any) -> Event:
    def store(order: Event) -> None:
        with suppress(client.exceptions.ConditionalCheckFailedException):
            table("orders").put_item(Item=order, ConditionExpression=NEW)

    return by_message(event, store)


def announces_in_order(event: Event, _: Any) -> None:
    for order in bodies(event):
        aws("sns").publish(
            TopicArn="arn:aws:sns:us-east-1:123456789012:orders.fifo",
            Message=json.dumps(order),
            MessageGroupId=order["customer"],
            MessageDeduplicationId=order["order_id"],
        )


def replaces_an_item(event: Event, _: Any) -> Event:
    return by_message(event, lambda order: table("orders").put_item(Item=order))
