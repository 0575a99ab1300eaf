"""The commands `dlq list` and `dlq show`, and the group of all `dlq` commands."""

from datetime import UTC, datetime

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import Letter, dead_letter_queues
from once.ops.dead_letters.redrive_safety import AssessedLetter, assess_letters
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.ops.dlq._import import import_letters
from once.ops.dlq._letter_json import letter_json, whole_letter_json
from once.ops.dlq._letter_list import groups_table
from once.ops.dlq._purge import purge
from once.ops.dlq._redrive import redrive
from once.ops.dlq.letter_options import (
    DEFAULT_LIMIT,
    ConsumerOption,
    LetterOptions,
    LimitOption,
    MessageIdArgument,
    with_letter_options,
)
from once.ops.dlq.letter_text import body_text, claimed_text, letter_lines
from once.ops.dlq.search import LetterSearch, open_search
from once.ops.dlq.selection import letters_by_id
from once.ops.terminal.console import JsonOption, ServiceOption, command_group, console, print_json

app = command_group(help="Dead letters: list, show, redrive, purge, import.")


@app.command("list")
@with_letter_options
def list_command(
    options: LetterOptions,
    as_json: JsonOption = False,
) -> None:
    """Show the dead letters by consumer, reason and age. They stay in their queues."""
    letter_filter = options.letter_filter()
    deployment = Deployment.find(options.service)
    sqs, places = client("sqs"), dead_letter_queues(deployment, options.consumer)
    with open_search(sqs, places, options.limit) as search:
        letters = [
            letter
            for page in search.walk.pages()
            for letter in page
            if letter_filter.matches(letter)
        ]
    if as_json:
        print_json({**search.as_json(), "letters": list(map(letter_json, letters))})
    else:
        _show_groups(letters, search)
    search.raise_if_hidden()


def _show_groups(letters: list[Letter], search: LetterSearch) -> None:
    if letters:
        console.print(groups_table(letters, datetime.now(UTC)))
    else:
        console.print("no dead letter could be seen" if search.hidden else "no dead letters")
    console.print(search.progress_text)


@app.command()
def show(
    message_id: MessageIdArgument,
    consumer: ConsumerOption = None,
    limit: LimitOption = DEFAULT_LIMIT,
    service: ServiceOption = "once",
    as_json: JsonOption = False,
) -> None:
    """Show one dead letter, its dedup record, and whether it is safe to send it back."""
    deployment = Deployment.find(service)
    sqs = client("sqs")
    with open_search(sqs, dead_letter_queues(deployment, consumer), limit) as search:
        [letter] = letters_by_id(search, [message_id])
    records = DedupRecordReader.of(client("dynamodb"), deployment)
    [assessed] = assess_letters(records, [letter])
    if as_json:
        print_json(whole_letter_json(assessed, datetime.now(UTC)))
    else:
        _show_letter(assessed)


def _show_letter(assessed: AssessedLetter) -> None:
    for line in letter_lines(assessed, datetime.now(UTC)):
        console.print(line, soft_wrap=True)
    console.print()
    console.print(body_text(assessed.context.letter), soft_wrap=True)
    if claimed := claimed_text(assessed.context):
        console.print("\nits data, from S3:")
        console.print(claimed, soft_wrap=True)


app.command()(redrive)
app.command()(purge)
app.command("import")(import_letters)
