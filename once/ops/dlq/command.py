"""`dlq`: what was given up, why, whether it is safe to send again, and doing so."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import Letter, boxes
from once.ops.dead_letters.redrive_safety import judge_all
from once.ops.dedup_records.dedup_table import DedupTable
from once.ops.dlq._letter_json import letter_json
from once.ops.dlq._letter_list import groups_table
from once.ops.dlq._letter_text import body_text, letter_table
from once.ops.dlq._options import (
    MOST,
    Choice,
    KeyOption,
    Limit,
    MessageId,
    Older,
    Owner,
    ReasonOption,
    Younger,
)
from once.ops.dlq._purge import purge
from once.ops.dlq._redrive import redrive
from once.ops.dlq._selection import approximate_number, looked_at, named, walking
from once.ops.terminal.console import Service, commands, console
from once.ops.terminal.formatting import json_text

app = commands(help="The messages that consumers gave up: their dead letters.")


@app.command("list")
def list_command(
    consumer: Owner = None,
    reason: ReasonOption = None,
    key: KeyOption = None,
    older_than: Older = None,
    younger_than: Younger = None,
    limit: Limit = MOST,
    as_json: Annotated[
        bool, typer.Option("--json", help="Every letter as JSON, without its body.")
    ] = False,
    service: Service = "once",
) -> None:
    """Show the dead letters by consumer, reason and age. They stay where they are."""
    choice = Choice.of(reason, key, older_than, younger_than)
    deployment = Deployment.find(service)
    sqs, places = client("sqs"), boxes(deployment, consumer)
    about = approximate_number(sqs, places)
    with walking(sqs, places, limit) as walk:
        letters = [letter for page in walk.pages() for letter in page if choice.takes(letter)]
    if as_json:
        found = {"looked_at": walk.looked_at, "approximate_number": about}
        typer.echo(json_text({**found, "letters": list(map(letter_json, letters))}))
    else:
        _show_groups(letters)
        console.print(looked_at(walk, about))


def _show_groups(letters: list[Letter]) -> None:
    if letters:
        console.print(groups_table(letters, datetime.now(UTC)))
    else:
        console.print("no dead letters")


@app.command()
def show(
    message_id: MessageId, consumer: Owner = None, limit: Limit = MOST, service: Service = "once"
) -> None:
    """Show one dead letter whole, its dedup record, and whether it is safe to send it back."""
    deployment = Deployment.find(service)
    sqs = client("sqs")
    with walking(sqs, boxes(deployment, consumer), limit) as walk:
        [letter] = named(walk, [message_id])
    [judged] = judge_all(DedupTable(client("dynamodb"), deployment.dedup_table), [letter])
    console.print(letter_table(judged, datetime.now(UTC)))
    console.print()
    console.print(body_text(letter), soft_wrap=True)


app.command()(redrive)
app.command()(purge)
