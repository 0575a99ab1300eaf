"""Calls that leave the handler's process, and faults as its own libraries report them."""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import patch

import pytest

from redelivery import Method, Subject, SubjectError, Table
from redelivery.boundary.aws import AwsRequest, Names
from redelivery.boundary.outside import Refused
from redelivery.boundary.thread_order import is_blocked
from redelivery.child import examine_in_child
from redelivery.examination import examine

from .support import kinds, results, subject

PUT = """
    import json, boto3
    orders = boto3.resource("dynamodb").Table("orders")
    {before}
    def handler(event, context):
        for record in event["Records"]:
            body = json.loads(record["body"])
            {call}
            orders.put_item(Item=body)
"""
HTTP = """
    import asyncio, boto3, httpx, json, requests, urllib.request, urllib3
    orders, http = boto3.resource("dynamodb").Table("orders"), urllib3.PoolManager()
    async def post(body):
        async with httpx.AsyncClient() as client:
            await asyncio.sleep(0.001)
            return await client.post("https://pay.example/async", json=body)
    def handler(event, context):
        for record in event["Records"]:
            body = json.loads(record["body"])
            requests.post("https://pay.example/requests", json=body)
            http.request("POST", "https://pay.example/urllib3", body=record["body"])
            httpx.post("https://pay.example/httpx", json=body)
            asyncio.run(post(body))
            data = record["body"].encode()
            urllib.request.urlopen("https://pay.example/urllib", data=data).read()
            orders.put_item(Item=body)
"""


def test_a_charge_whose_answer_is_lost_is_doubled_by_every_library(tmp_path: Path) -> None:
    found = results(tmp_path, HTTP, "answer-lost", "refused")
    for number, library in enumerate(("requests", "urllib3", "httpx", "async", "urllib"), 1):
        [*_, last] = found[f"answer-lost@1.{number}"].differences
        assert last.site.startswith("app.py:")
        doubled = {(str(d.kind), d.what) for d in found[f"answer-lost@1.{number}"].differences}
        assert ("doubled", f"POST https://pay.example/{library}") in doubled
        refused = found[f"refused@1.{number}"]
        assert f"https://pay.example/{library}" not in {d.what for d in refused.differences}
        assert "no connection" in " ".join(refused.course)


@pytest.mark.parametrize("library", ["requests", "urllib.request"])
def test_a_throttled_request_is_an_answer_with_its_status(library: str, tmp_path: Path) -> None:
    call = {
        "requests": "assert requests.get('https://pay.example/').status_code != 429",
        "urllib.request": "urllib.request.urlopen('https://pay.example/')",
    }[library]
    source = PUT.format(before=f"import {library}", call=call)
    course = " ".join(results(tmp_path, source, "throttled")["throttled@1.1"].course)
    assert "GET https://pay.example/: throttled the handler raises" in course


def test_a_sleep_moves_the_clock(tmp_path: Path) -> None:
    source = PUT.format(before="import time", call="time.sleep(3600)")
    with pytest.raises(SubjectError, match="Lambda ends the function"):
        examine(subject(tmp_path, source))


@pytest.mark.parametrize(
    ("call", "place"),
    [
        ("socket.create_connection(('10.1.2.3', 80))", "10.1.2.3:80"),
        ("socket.socket().connect_ex(('10.1.2.3', 80))", "10.1.2.3:80"),
        ("socket.create_connection(('db.internal', 5432))", "db.internal:5432"),
        ("swallowed()", "10.1.2.3:80"),
    ],
    ids=["connect", "connect_ex", "by name", "swallowed"],
)
def test_a_connection_past_the_boundary_is_refused(call: str, place: str, tmp_path: Path) -> None:
    before = """import socket
    def swallowed():
        try:
            socket.create_connection(("10.1.2.3", 80))
        except:
            pass"""
    with pytest.raises(SubjectError, match=rf"connects to {re.escape(place)} by a library"):
        examine(subject(tmp_path, PUT.format(before=before, call=call)))
    assert not issubclass(Refused, Exception)


@pytest.mark.parametrize("host", ["10.1.2.3", "db.internal"])
def test_a_library_in_c_reaches_no_host(host: str, tmp_path: Path) -> None:
    call = f"psycopg2.connect(host='{host}', connect_timeout=60)"
    with pytest.raises(SubjectError, match=r"OperationalError.*library that is not intercepted"):
        examine_in_child(subject(tmp_path, PUT.format(before="import psycopg2", call=call)))


def test_a_method_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    wrong = [Method("json:Nothing.dump", ConnectionError)]
    with pytest.raises(SubjectError, match=r"no method json:Nothing\.dump"):
        examine(subject(tmp_path, PUT.format(before="", call=""), methods=wrong))


def test_a_killed_handler_catches_nothing(tmp_path: Path) -> None:
    source = """
        import boto3, json
        orders = boto3.resource("dynamodb").Table("orders")
        def handler(event, context):
            for record in event["Records"]:
                try:
                    orders.update_item(
                        Key={"order_id": "o"}, UpdateExpression="ADD n :n",
                        ExpressionAttributeValues={":n": 1},
                    )
                except:
                    orders.put_item(Item={"order_id": "cleaned up"})
    """
    found = results(tmp_path, source, "dies-before", tables=[Table("orders", "order_id")])
    assert kinds(found["dies-before@1.1"]) == []


def test_a_message_sent_twice_meets_itself_under_another_id(tmp_path: Path) -> None:
    source = """
        import boto3, json, requests
        orders = boto3.resource("dynamodb").Table("orders")
        def handler(event, context):
            for record in event["Records"]:
                body = json.loads(record["body"])
                if "Item" in orders.get_item(Key={"order_id": body["order_id"]}):
                    continue
                key = {"Idempotency-Key": record["messageId"]}
                requests.post("https://pay.example/c", headers=key)
                orders.put_item(Item=body)
    """
    found = results(tmp_path, source, "in-parallel")
    doubled = {name for name, result in found.items() if kinds(result) == ["doubled"]}
    assert "in-parallel@sent-twice-2" in doubled
    assert all("sent-twice" in name for name in doubled)


def test_a_request_that_the_kit_cannot_read_is_not_the_handlers_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swallowed = """try:
                orders.get_item(Key={"order_id": "o-1"})
            except Exception:
                pass"""
    monkeypatch.setattr(AwsRequest, "is_eventual", property(lambda _: dict[str, bool]()["unknown"]))
    with pytest.raises(RuntimeError, match=r"cannot read the request dynamodb\.GetItem"):
        examine(subject(tmp_path, PUT.format(before="", call=swallowed)))


def test_a_request_that_botocore_refuses_is_the_handlers_error(tmp_path: Path) -> None:
    call = "orders.meta.client.transact_write_items(TransactItems=[7])"
    with pytest.raises(SubjectError, match=r"without any fault: ParamValidationError"):
        examine(subject(tmp_path, PUT.format(before="", call=call)))


def test_a_module_of_another_folder_is_not_taken_for_the_handler(tmp_path: Path) -> None:
    elsewhere = Subject(handler="json.loads", events=[{"order_id": "o-1"}], root=tmp_path)
    loaded = sys.modules["json"]
    with pytest.raises(SubjectError, match=r"json was found at .* outside of"):
        examine(elsewhere)
    assert sys.modules["json"] is loaded


def test_an_imported_module_of_the_same_name_does_not_hide_the_handler(tmp_path: Path) -> None:
    given = subject(tmp_path, PUT.format(before="", call=""))
    with patch.dict(sys.modules, {"app": sys}):
        assert examine(given, only=["redriven"]).results[0].fired
        assert sys.modules["app"] is sys


UPDATE = {"Update": {"TableName": "stock", "Key": {"sku": {"S": "tea"}}}}


@pytest.mark.parametrize("entry", [UPDATE, json.dumps(UPDATE).encode()])
def test_an_entry_of_a_transaction_may_be_encoded_by_the_handler(entry: object) -> None:
    names = Names({}, {"stock": ("sku",)})
    request = AwsRequest("dynamodb", "TransactWriteItems", {"TransactItems": [entry]}, names)
    assert request.touches == ("stock sku=tea",)


def test_a_message_that_the_handler_sends_again_is_delivered_and_no_effect(tmp_path: Path) -> None:
    found = results(
        tmp_path,
        """
        import json, os, boto3
        sqs, orders = boto3.client("sqs"), boto3.resource("dynamodb").Table("orders")
        def handler(event, context):
            for record in event["Records"]:
                if record["messageAttributes"]:
                    orders.put_item(Item=json.loads(record["body"]))
                else:
                    sqs.send_message(
                        QueueUrl=os.environ["QUEUE_URL"], MessageBody=record["body"],
                        DelaySeconds=60, MessageAttributes={
                            "later": {"DataType": "String", "StringValue": "1"}},
                    )
        """,
        "delivered-again",
        environment={"QUEUE_URL": "{source}"},
    )
    assert all(result.passed for result in found.values())


ASK = """
import gc, sys, threading, time, weakref
from redelivery.boundary.thread_order import is_blocked

class Node: ...

def leave_a_cycle():
    node = Node()
    node.itself = node
    kept.append(weakref.ref(node, lambda ref: sum(range(50))))
    if len(kept) > 50:
        kept.clear()

def ask():
    while time.monotonic() < end:
        leave_a_cycle()
        is_blocked(main)

gc.set_threshold(1)
sys.setswitchinterval(1e-6)
kept, main, end = [], threading.current_thread(), time.monotonic() + 1
threads = [threading.Thread(target=ask) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
"""Within a second, this hangs if the collector may run inside `sys._current_frames`."""


def test_threads_that_look_at_each_other_end() -> None:
    subprocess.run([sys.executable, "-c", ASK], check=True, timeout=30)


def test_a_thread_that_has_ended_is_blocked_although_another_has_its_number() -> None:
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    ended._ident = threading.get_ident()  # type: ignore[attr-defined]
    assert is_blocked(ended)
