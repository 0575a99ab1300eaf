"""The command `make lab LOAD=…`: approaches under load, without and with killed processes."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from statistics import median

from rich.console import Console

from emulator.child_processes import ProcessFailed
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from emulator.local.steps import step
from lab.load import report
from lab.load.deployment import Deployment, deployed
from lab.load.payments import Invocation, Kill
from lab.load.traffic import BATCH, SINGLE, TWICE, Traffic, batches, traffic
from lab.stores import servers
from lab.subjects import APPROACHES
from redelivery import Subject

BARE, SAFE = "none", "once"
ORDERS_PER_KILL = 40
ROUNDS = 16
_AT_ONCE = 3
"""Runs with kills at a time: most of such a run is the wait for a visibility timeout."""

Work = Callable[[str, Subject], str]
"""Measures an approach, by its name and its subject; returns the result in words."""


def run_load(messages: int, names: Sequence[str]) -> bool:
    """Run approaches under load, print the table, and write `reports/lab-load.json`.

    Args:
        messages: number of orders, positive; three of ten are sent twice.
        names: the approaches.

    Returns:
        Whether Once, if it is one of them, doubled and lost nothing.

    Raises:
        SystemExit: a run failed; the message says which.
    """
    console = Console(highlight=False)
    try:
        with embedded_aws() as aws:
            found = measure(aws, messages, names, console)
    except (ProcessFailed, TimeoutError) as error:
        raise SystemExit(str(error)) from error
    report.write(found)
    report.show(found, console)
    return report.is_clean(found, SAFE)


def measure(
    aws: EmbeddedAws, messages: int, names: Sequence[str], console: Console
) -> report.Report:
    """Run approaches three times: under load, beside no idempotency, and with kills."""
    sent = traffic(messages)
    found = report.empty(sent)
    rows = found["approaches"]

    def load(name: str, subject: Subject) -> str:
        rows[name] = {"without_kills": run_approach(aws, subject, sent, kills=False)}
        return in_words(rows[name]["without_kills"])

    def compare(name: str, subject: Subject) -> str:
        ratio = overhead(aws, subject, bare)
        rows[name]["ratio"] = round(ratio, 2)
        return f"{ratio:.2f} times the duration"

    def kill(name: str, subject: Subject) -> str:
        rows[name]["with_kills"] = run_approach(aws, subject, sent, kills=True)
        return in_words(rows[name]["with_kills"])

    run_stage("under load", load, names, found, console)
    with deployed(aws, APPROACHES[BARE].subject({})) as bare:
        run_stage("beside no idempotency", compare, names, found, console)
    run_stage("under load, with killed processes", kill, names, found, console, at_once=_AT_ONCE)
    return found


def run_stage(
    title: str,
    work: Work,
    names: Sequence[str],
    found: report.Report,
    console: Console,
    *,
    at_once: int = 1,
) -> None:
    """Measure approaches, a few at a time. One whose server does not start is noted as not run.

    Raises:
        TimeoutError: a queue was not at rest in time; the message names the approach.
    """

    def measured(name: str) -> str:
        with ExitStack() as stack:
            try:
                urls = stack.enter_context(servers(APPROACHES[name].servers))
            except (OSError, RuntimeError) as error:
                found["not_run"][name] = str(error)
                found["approaches"].pop(name, None)
                return f"not run: {error}"
            try:
                return work(name, APPROACHES[name].subject(urls))
            except TimeoutError as error:
                raise TimeoutError(f"{name}: {error}") from error

    left = [name for name in names if name not in found["not_run"]]
    pool = ThreadPoolExecutor(at_once)
    try:
        with step(title, console=console, total=len(left)) as shown:
            for name, told in zip(left, pool.map(measured, left), strict=True):
                console.print(f"  {name}: {told}", soft_wrap=True)
                shown.advance()
    finally:  # after an error, the others end with the embedded AWS
        pool.shutdown(wait=False, cancel_futures=True)


def run_approach(
    aws: EmbeddedAws, subject: Subject, sent: Traffic, *, kills: bool
) -> report.Report:
    """Send traffic through an approach, killing processes or not, and count what it left behind."""
    with deployed(aws, subject) as place:
        if kills:
            place.provider.kill_at = kill_at
        started = time.monotonic()
        for part in (sent.first, sent.later):
            place.process(part)
        return report.counted(place, sent, time.monotonic() - started)


def in_words(counts: report.Report) -> str:
    """Return the counts of a run as a sentence."""
    doubled, lost, dead = (counts[name] for name in ("doubled", "lost", "dead_letters"))
    return f"{doubled} doubled, {lost} lost, {dead} dead-lettered in {counts['seconds']:.0f} s"


def kill_at(order: str) -> Kill:
    """Return when the process that charges an order is killed: of a few, before or after it."""
    kind, _, number = order.rpartition("-")
    turn, rest = divmod(int(number), ORDERS_PER_KILL)
    if rest:
        return ""
    # The two kinds of orders begin with another moment, so that a short run has both.
    return "after" if (turn + (kind == TWICE)) % 2 else "before"


def overhead(aws: EmbeddedAws, subject: Subject, bare: Deployment) -> float:
    """Return the ratio of an approach's duration and that of `bare`, which has no idempotency.

    Both are deployed side by side and take turns: a round is one batch of each, and the one that
    begins alternates. The result is the median of the rounds' ratios: other work of the machine
    affects both parts of a ratio. One process works at a time, so that processes do not wait for
    each other, as they do not on Lambda.
    """
    ratios = []
    with deployed(aws, subject) as own:
        for n in range(ROUNDS):
            sent = batches(SINGLE, range(n * BATCH, (n + 1) * BATCH))
            turns = (own, bare) if n % 2 else (bare, own)
            ms = {id(turn): _ms(turn.process(sent)) for turn in turns}
            ratios.append(ms[id(own)] / ms[id(bare)])
    return median(ratios)


def _ms(invocations: Sequence[Invocation]) -> float:
    """Return the mean duration for a message, of processes that are warm."""
    warm = [each for each in invocations if each.is_warm]
    return sum(each.ms for each in warm) / sum(each.messages for each in warm)
