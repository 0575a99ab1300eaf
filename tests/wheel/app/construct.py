"""A consumer of Once in an app of its own, with a table and a queue that exist already."""

import sys
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sqs as sqs

from once.cdk import ConsumerProps, DedupTable, IdempotentConsumer, SynthError, TableProps

app = cdk.App()
stack = cdk.Stack(app, "tickets")

seats = dynamodb.Table.from_table_arn(stack, "Seats", app.node.get_context("seats_arn"))
bookings = sqs.Queue.from_queue_arn(stack, "Bookings", app.node.get_context("bookings_arn"))

tickets = ConsumerProps(
    "tickets",
    external=("seat.booked",),  # the types of event that the queue holds
    tables=(TableProps("seats", "show"),),
    folder=Path(__file__).parent / "functions" / "tickets",
)

try:
    consumer = IdempotentConsumer(
        stack,
        tickets,
        dedup_table=DedupTable(stack, "dedup"),
        tables={"seats": seats},
        queue=bookings,
    )
except SynthError as error:
    sys.exit(f"\n{error}\n")

cdk.CfnOutput(stack, "DeadLetters", value=consumer.dead_letters.queue_url)
cdk.CfnOutput(stack, "Function", value=consumer.function.function_name)

app.synth()
