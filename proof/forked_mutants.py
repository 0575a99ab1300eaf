"""Tests mutmut's mutants in forks of a process that has collected the tests once.

`mutmut run` forks for each mutant too, but runs pytest in the fork from the start, which takes
twice the CPU (docs/mutants.md). Here each mutant is tested by the tests that call its function,
until one of them fails: first those that have killed other mutants of the function in little time.

Executed by its path in a project with mutmut's settings: it must not import the code under test
before mutmut has mutated it. Writes `mutants.json`: the status of each mutant by its name, and the
change of each that was not killed.
"""

import gc
import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from math import ceil
from pathlib import Path
from typing import TextIO

import pytest
from _pytest.runner import runtestprotocol
from mutmut import __main__ as mutmut
from mutmut.configuration import config
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir, setup_source_paths

Items = list[pytest.Item]

KILLED = ("killed", "timeout")

_NO_MUTANT = ""
_SURVIVED, _KILLED, _KILLED_BY = 0, 1, 2
"""Exit codes of a process that tests a mutant: 2 is the first of its tests, and so on to 255."""
_STATUSES = {_SURVIVED: "survived", -signal.SIGXCPU: "timeout", -signal.SIGALRM: "timeout"}
_UNKNOWN = 0.2
"""A test that has killed no mutant of a function counts as having killed so many."""
_SPARE_SECONDS, _TIMES = 2, 5
"""In a mutant, a test has five times its CPU time without one, and two seconds."""
_LINE_SECONDS = 15
_WAITING = 30
"""It has so many times that by the clock, if it waits."""
_ARGUMENTS = ("--rootdir=.", "-q", "--tb=native", "--assert=plain")
"""Nobody reads how a mutant fails: to show it takes longer than most tests."""


class FalseAlarm(Exception):
    """Tests fail without a mutant."""


class Mutants:
    """The plugin that tests the mutants, once pytest has collected the tests.

    Args:
        names: of the mutants.
        children: number of mutants that are tested at a time.
    """

    def __init__(self, names: list[str], children: int) -> None:
        self._names, self._children = names, children
        self._output = os.fdopen(os.dup(sys.stderr.fileno()), "w")  # pytest captures the other one
        self._told = time.monotonic()
        self._running: dict[int, tuple[str, Items]] = {}
        self._tests: defaultdict[str, Items] = defaultdict(list)
        self._seconds: dict[pytest.Item, float] = {}
        self._kills: Counter[tuple[str, pytest.Item]] = Counter()
        self.statuses: dict[str, str] = {}

    def pytest_configure(self) -> None:
        """Let Hypothesis generate the same examples in every run, and shrink none."""
        # Not above: pytest rewrites the package, and has to see it first.
        from hypothesis import HealthCheck, Phase, Verbosity, settings

        settings.register_profile(
            "mutants",
            derandomize=True,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=[*HealthCheck],
        )
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run each test once, to see what it calls, and then the mutants."""
        self._observe(session.items)
        gc.freeze()
        # Without a mutant, all tests have to pass in this way as well.
        self._tests[_NO_MUTANT] = session.items
        self._test_all([_NO_MUTANT])
        if self.statuses.pop(_NO_MUTANT) != "survived":
            raise FalseAlarm("the tests fail in another order, or if they run again")
        self._test_all(self._names)
        return True

    def _test_all(self, names: Iterable[str]) -> None:
        for name in names:
            self._start(name)
        while self._running:
            self._wait()

    def _observe(self, items: Items) -> None:
        set_mutant_under_test("stats")
        hits = state()._stats  # noqa: SLF001
        for item, following in zip(items, [*items[1:], None], strict=True):
            hits.clear()
            began = time.process_time()
            if failure := _failure(item, following):
                raise FalseAlarm(failure)
            self._seconds[item] = time.process_time() - began
            for function in hits:
                self._tests[function].append(item)

    def _start(self, name: str) -> None:
        function = _function_of(name)

        def seconds_a_kill(item: pytest.Item) -> float:
            return self._seconds[item] / (self._kills[function, item] + _UNKNOWN)

        items = sorted(self._tests[function], key=seconds_a_kill)
        if not items:
            self.statuses[name] = "no tests"
            return
        while len(self._running) >= self._children:
            self._wait()
        child = os.fork()
        if not child:
            _test(name, [(item, self._seconds[item]) for item in items], self._output)
        self._running[child] = name, items

    def _wait(self) -> None:
        child, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        name, items = self._running.pop(child)
        if code >= _KILLED_BY:
            self._kills[_function_of(name), items[code - _KILLED_BY]] += 1
        self.statuses[name] = _STATUSES.get(code, "killed" if code > 0 else "suspicious")
        if time.monotonic() > self._told + _LINE_SECONDS:
            self._told = time.monotonic()
            print(f"{len(self.statuses)} of {len(self._names)}", file=self._output, flush=True)


def _test(name: str, items: Sequence[tuple[pytest.Item, float]], output: TextIO) -> None:
    """End this process with the result of the tests of a mutant; print a failure without one."""
    result = _KILLED
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        set_mutant_under_test(name)
        failure = ""
        turns = zip(items, [*items[1:], (None, 0)], strict=True)
        for code, ((item, seconds), (following, _)) in enumerate(turns, _KILLED_BY):
            limit = ceil(_SPARE_SECONDS + _TIMES * seconds)
            signal.alarm(_WAITING * limit)
            limit += ceil(time.process_time())
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            if failure := _failure(item, following):
                result = min(code, 255)
                break
        else:
            result = _SURVIVED
        if failure and name == _NO_MUTANT:
            print(failure, file=output, flush=True)
    finally:
        os._exit(result)


def _function_of(name: str) -> str:
    """Return the name that mutmut gives the function of a mutant."""
    return name.partition("__mutmut_")[0]


def _failure(item: pytest.Item, following: pytest.Item | None) -> str:
    """Run a test, which may have been run before; return how it fails, empty if it passes."""
    item._initrequest()  # type: ignore[attr-defined]  # noqa: SLF001
    reports = runtestprotocol(item, log=False, nextitem=following)
    return "".join(f"{item.nodeid}\n{one.longreprtext}" for one in reports if one.failed)


def main(children: int) -> None:
    """Create the mutants of the project in the current folder, and test them."""
    set_mutant_under_test("mutant_generation")
    with redirect_stdout(StringIO()):  # mutmut prints the name of each file
        copy_src_dir()
        copy_also_copy_files()
        setup_source_paths()
        mutmut.create_mutants(children)
    files, _ = mutmut.collect_source_file_mutation_data(mutant_names=())
    paths = {name: file.path for file, name, _ in files}
    project = os.getcwd()  # noqa: PTH109
    selection = [*config().pytest_add_cli_args, *config().pytest_add_cli_args_test_selection]
    mutants = Mutants([*paths], children)
    os.chdir("mutants")
    code = pytest.main([*_ARGUMENTS, *selection], plugins=[mutants])
    os.chdir(project)
    if code or not mutants.statuses:
        sys.exit("the tests must pass, and call what is mutated, before a mutant is tested")
    survivors = [name for name, status in mutants.statuses.items() if status not in KILLED]
    changes = {name: _change(get_diff_for_mutant(name, path=paths[name])) for name in survivors}
    found = {"statuses": mutants.statuses, "changes": changes}
    Path("mutants.json").write_text(json.dumps(found))


def _change(diff: str) -> str:
    """Return the lines that a mutant removes and adds."""
    changed = [line for line in diff.splitlines() if line.startswith(("-", "+"))]
    return "\n".join(line for line in changed if not line.startswith(("---", "+++")))


if __name__ == "__main__":
    main(int(sys.argv[1]))
