"""A stage of a load run: the same measurement of each approach, with progress."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rich.console import Console

from emulator.local.steps import step
from lab.load.approach_run import Site
from lab.load.result import Measured
from lab.stores.servers import servers
from lab.subjects import APPROACHES
from redelivery import Subject

Work = Callable[[str, Subject], str]
"""Measures an approach, by its name and its subject; returns the result in words."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Runs a measurement of several approaches.

    Attributes:
        site: where they run.
        names: the approaches.
        measured: gets the approaches that cannot run here, with the reason.
        console: shows progress and results.
    """

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
        with (
            step(title, console=self.console, total=len(names)) as shown,
            self._threads(at_once) as threads,
        ):
            for said in threads.map(lambda name: self._measure(name, work), names):
                self.console.print(f"  {said}", soft_wrap=True)
                shown.advance()

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

    @contextmanager
    def _threads(self, number: int) -> Iterator[ThreadPoolExecutor]:
        with ThreadPoolExecutor(number) as pool:
            try:
                yield pool
            except BaseException:
                self.site.halted.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
