"""Counts an event on its account, which holds the dedup record as well."""

from msgspec import Struct

from once import Consumer, Key, Transaction

consumer = Consumer("holders")
ACCOUNTS = consumer.table("accounts")


class Change(Struct, frozen=True):
    account: str
    amount: int = 1


@consumer.handles("account.renamed", Change, key=Key.field("account"))
def count(event: Change, tx: Transaction) -> None:
    key, change = {"account": event.account}, "ADD renamed :amount"
    tx.update(ACCOUNTS, key, change, {":amount": event.amount})


lambda_handler = consumer.lambda_handler
