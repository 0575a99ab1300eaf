"""The pytest plugin: the fixture `redelivery`, which checks handlers.

pytest imports this module in every run of every project that has the distribution: what takes time
to import is imported when a check begins.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from redelivery.accepted import read_accepted, with_accepted
from redelivery.check import check as run_check
from redelivery.faults import Fault
from redelivery.report import Report, Verdict, count, kinds_text
from redelivery.subject import Subject, SubjectError

Checks = dict[tuple[int, int], tuple[Subject, Report]]
"""Reports by the subject's identity and seed. No other object has a kept one's id."""

_CHECKS = pytest.StashKey[Checks]()


@pytest.fixture
def redelivery(request: pytest.FixtureRequest) -> "Redelivery":
    """Checks whether a handler is idempotent: `redelivery.check(subject, fault)`."""
    config = request.config
    checks = config.stash.setdefault(_CHECKS, {})
    # The fixture `record_property` does the same, and warns with pytest's default JUnit family.
    return Redelivery(config.rootpath, checks, request.node.user_properties)


@dataclass(frozen=True, slots=True)
class Redelivery:
    """Runs checks, and fails or skips the test. Relative paths of a subject begin at the root.

    The reports of a session are kept, so that the tests of all faults share one check.
    """

    root: Path
    checks: Checks
    properties: list[tuple[str, object]]

    def check(
        self, subject: Subject, fault: Fault | str = "", *, seed: int = 1, replay: str = ""
    ) -> Report:
        """Fail the test if a fault makes a difference, or if there is no verdict.

        The test is skipped, with the reason, if the handler has no scenario for the fault or if
        the fault never took place.

        Args:
            subject: the handler and what it needs. The same object is checked once a session.
            fault: judge this fault alone; empty for all.
            seed: as of `redelivery.check`.
            replay: run this scenario alone, for a debugger.
        """
        __tracebackhide__ = True
        if replay:
            return self._replay(subject, replay, seed)
        same = (id(subject), seed)
        if same not in self.checks:
            self.checks[same] = (subject, self._run(subject, seed=seed))
        report = self.checks[same][1]
        if report.verdict is Verdict.NONE:
            pytest.fail(report.verdict_line, pytrace=False)
        if fault:
            not_run = {name: why for name, why in report.not_run.items() if name == fault}
            report = replace(report, results=report.of(Fault(fault)), not_run=not_run)
        fired = sum(result.fired for result in report.results)
        self.properties.extend([("scenarios", len(report.results)), ("fired", fired)])
        if fault and not report.results:
            pytest.skip(f"{fault}: {report.not_run.get(Fault(fault), 'no scenario')}")
        if fault and not fired:
            pytest.skip(f"{fault}: never took place in {count(len(report.results), 'scenario')}")
        if report.failures:
            pytest.fail(_text(report), pytrace=False)
        return report

    def _replay(self, subject: Subject, scenario: str, seed: int) -> Report:
        __tracebackhide__ = True
        from redelivery.presentation import print_scenario, text_of

        report = self._run(subject, seed=seed, replay=scenario)
        [result] = report.results
        if not result.passed:
            pytest.fail(text_of(lambda console: print_scenario(result, console)), pytrace=False)
        return report

    def _run(self, subject: Subject, **options: Any) -> Report:
        __tracebackhide__ = True
        from redelivery.presentation import escape_controls

        try:
            # Paths do not depend on the folder that pytest is started in.
            events = [self.root / e if isinstance(e, Path) else e for e in subject.events]
            rooted = replace(subject, root=self.root / subject.root, events=tuple(events))
            report = run_check(rooted, **options)
            return with_accepted(report, read_accepted(self.root), self.root)
        except SubjectError as error:
            wrong = str(error)
        # Outside of `except`, so that pytest does not show the first error as well.
        pytest.fail(escape_controls(f"{subject.handler}: {wrong}"), pytrace=False)


def _text(report: Report) -> str:
    from redelivery.presentation import print_report, text_of

    def repeat(scenario: str) -> str:
        return f"redelivery.check(subject, replay={scenario!r}, seed={report.seed})"

    # The first line is what pytest's summary shows of a failure.
    text = text_of(lambda console: print_report(report, console, repeat=repeat))
    failing = (f"{row.fault}: {kinds_text(row.kinds)}" for row in report.rows if row.kinds)
    return f"{'; '.join(failing)}\n\n{text}"
