"""The pytest plugin: the fixture `redelivery`, which checks handlers.

pytest imports this module in every run of every project that has the distribution: what takes time
to import is imported when a check begins.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from redelivery.check import check as run_check
from redelivery.faults import Fault
from redelivery.report import Report
from redelivery.subject import Subject, SubjectError

Checks = dict[tuple[int, int], tuple[Subject, Report]]
"""Reports by the subject's identity and the seed. A kept subject's id is given to no other."""

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
    """Runs checks, and fails or skips the test.

    Attributes:
        root: the project's root folder; a subject's relative paths begin there.
        checks: the reports of this session, so that the tests of all faults share one check.
        properties: of the test, for JUnit.
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
            seed: draws values and interleavings.
            replay: run this scenario alone, for a debugger.
        """
        __tracebackhide__ = True
        if replay:
            return self._replay(subject, replay, seed)
        report = self._report(subject, seed)
        _fail_without_verdict(report)
        if fault:
            report = _of(report, Fault(fault))
        self.properties.append(("scenarios", len(report.results)))
        self.properties.append(("fired", sum(result.fired for result in report.results)))
        if fault:
            _skip_without_evidence(report, Fault(fault))
        if report.failures:
            pytest.fail(_text(report), pytrace=False)
        return report

    def _report(self, subject: Subject, seed: int) -> Report:
        __tracebackhide__ = True
        same = (id(subject), seed)
        if same not in self.checks:
            self.checks[same] = (subject, self._run(subject, seed=seed))
        return self.checks[same][1]

    def _replay(self, subject: Subject, scenario: str, seed: int) -> Report:
        __tracebackhide__ = True
        from redelivery.presentation.terminal import print_scenario, text_of

        report = self._run(subject, seed=seed, replay=scenario)
        [result] = report.results
        if not result.passed:
            pytest.fail(text_of(lambda console: print_scenario(result, console)), pytrace=False)
        return report

    def _run(self, subject: Subject, *, seed: int, replay: str = "") -> Report:
        __tracebackhide__ = True
        from redelivery.isolation import isolated
        from redelivery.presentation.escaping import escape_controls

        try:
            with isolated():
                return run_check(self._rooted(subject), seed=seed, replay=replay)
        except SubjectError as error:
            wrong = str(error)
        # Outside of `except`, so that pytest does not show the first error as well.
        pytest.fail(escape_controls(f"{subject.handler}: {wrong}"), pytrace=False)

    def _rooted(self, subject: Subject) -> Subject:
        """Return the subject with paths that do not depend on the folder pytest is started in."""
        events = tuple(self.root / e if isinstance(e, Path) else e for e in subject.events)
        return replace(subject, root=self.root / subject.root, events=events)


def _fail_without_verdict(report: Report) -> None:
    __tracebackhide__ = True
    from redelivery.presentation.summary import Verdict, verdict, verdict_line

    if verdict(report) is Verdict.NONE:
        pytest.fail(verdict_line(report), pytrace=False)


def _of(report: Report, fault: Fault) -> Report:
    """Return the report with the results of one fault alone."""
    not_run = {name: why for name, why in report.not_run.items() if name is fault}
    return replace(report, results=report.of(fault), not_run=not_run)


def _skip_without_evidence(report: Report, fault: Fault) -> None:
    from redelivery.presentation.summary import count

    if not report.results:
        pytest.skip(f"{fault}: {report.not_run.get(fault, 'no scenario')}")
    if not any(result.fired for result in report.results):
        pytest.skip(f"{fault}: never took place in {count(len(report.results), 'scenario')}")


def _text(report: Report) -> str:
    """Return the report; its first line is what pytest's summary shows of a failure."""
    from redelivery.presentation.summary import failing_rows
    from redelivery.presentation.terminal import print_report, text_of

    def repeat(scenario: str) -> str:
        return f"redelivery.check(subject, replay={scenario!r}, seed={report.seed})"

    text = text_of(lambda console: print_report(report, console, repeat=repeat))
    return f"{failing_rows(report)}\n\n{text}"
