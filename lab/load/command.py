"""The command `make lab LOAD=…`: approaches under load, without and with killed processes."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from rich.console import Console

from emulator.child_processes import ProcessFailed
from emulator.embedded_aws import embedded_aws
from emulator.local.steps import step
from lab.load import report
from lab.load.approach_run import Site, overhead, run_approach, running
from lab.load.report import Measured
from lab.load.traffic import traffic
from lab.stores import servers
from lab.subjects import APPROACHES
from redelivery import Subject

BARE, SAFE = "none", "once"
_AT_ONCE = 3
"""Runs with kills at a time: most of such a run is the wait for a visibility timeout."""

Work = Callable[[str, Subject], str]
"""Measures an approach, by its name and its subject; returns the result in words."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Runs a measurement of several approaches. Those that cannot run here are added to it."""

    site: Site
    names: Sequence[str]
    measured: Measured
    console: Console

    def run(self, title: str, work: Work, *, at_once: int = 1) -> None:
        """Measure each approach, a few at a time. After an error the others end, too.

        Raises:
            TimeoutError: a queue was not at rest in time; the message names the approach.
        """
        names = [name for name in self.names if name not in self.measured.not_run]
        pool = ThreadPoolExecutor(at_once)
        with step(title, console=self.console, total=len(names)) as shown, pool as threads:
            try:
                for said in threads.map(lambda name: self._measure(name, work), names):
                    self.console.print(f"  {said}", soft_wrap=True)
                    shown.advance()
            except BaseException:
                self.site.halted.set()
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _measure(self, name: str, work: Work) -> str:
        with ExitStack() as stack:
            try:
                urls = stack.enter_context(servers(APPROACHES[name].servers))
            except (OSError, RuntimeError) as error:
                self.measured.not_run[name] = str(error)
                return f"{name}: not run: {error}"
            try:
                return f"{name}: {work(name, APPROACHES[name].subject(urls))}"
            except TimeoutError as error:
                raise TimeoutError(f"{name}: {error}") from error


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
            measured = measure(Site(aws), messages, names, console)
    except (ProcessFailed, TimeoutError) as error:
        raise SystemExit(str(error)) from error
    report.write(measured)
    report.show(measured, console)
    return measured.is_clean(SAFE)


def measure(site: Site, messages: int, names: Sequence[str], console: Console) -> Measured:
    """Run approaches three times: under load, beside no idempotency, and with kills.

    Raises:
        TimeoutError: a queue was not at rest in time; the message names the approach.
    """
    measured = Measured(traffic(messages))
    stage = Stage(site, names, measured, console)

    def load(name: str, subject: Subject) -> str:
        measured.load[name] = run_approach(site, subject, measured.sent, kills=False)
        return str(measured.load[name])

    def kill(name: str, subject: Subject) -> str:
        measured.killed[name] = run_approach(site, subject, measured.sent, kills=True)
        return str(measured.killed[name])

    stage.run("under load", load)
    with running(site, APPROACHES[BARE].subject({})) as bare:

        def compare(name: str, subject: Subject) -> str:
            measured.ratios[name] = overhead(site, subject, bare)
            return f"{measured.ratios[name]:.2f} times the duration"

        stage.run("beside no idempotency", compare)
    stage.run("under load, with killed processes", kill, at_once=_AT_ONCE)
    return measured
