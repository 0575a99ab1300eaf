"""Jobs: changes that an operator has seen as a dry run, has confirmed, and watches."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from secrets import token_urlsafe

from botocore.exceptions import BotoCoreError, ClientError

from once.ops.console.changes import Changes
from once.ops.errors import OpsError, StoppedError, error_with_remedy, unexpected_error_text

_MOST_KEPT = 100


class JobPhase(StrEnum):
    """Phase of a job."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(slots=True)
class Progress:
    """Progress of a running job; its work sets the numbers, pages show them.

    Attributes:
        done: number of things that were looked at.
        total: number of all of them, approximate on AWS; None if not known.
        counts: results by name, such as `sent`.
        result: what the operator should know of it afterwards, a line each.
        stop: set by the operator: the work ends after what it is doing now.
    """

    total: int | None = None
    done: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    result: Sequence[str] = ()
    stop: threading.Event = field(default_factory=threading.Event)
    note: Callable[[], None] = field(default=lambda: None, repr=False)

    def advance(self, done: int, counts: Mapping[str, int] | None = None) -> None:
        """Set the numbers, and tell the pages."""
        self.done = done
        self.counts = dict(counts or self.counts)
        self.note()


@dataclass(slots=True)
class Job:
    """A change: first a plan, then its execution.

    Attributes:
        title: what it does, in words, such as `Redrive 3 dead letters of orders`.
        plan: what the dry run found, a line each.
        changes: number of things that it would change; with 0 it cannot be confirmed.
        work: does it; takes the operator's reason and the progress to advance.
        back: path of the page to return to, below the console's root.
        command: the command that does the same; None if there is none.
    """

    title: str
    plan: Sequence[str]
    changes: int
    work: Callable[[str | None, Progress], None] = field(repr=False)
    back: str = ""
    command: str | None = None
    id: str = field(default_factory=lambda: token_urlsafe(12))
    phase: JobPhase = JobPhase.PLANNED
    progress: Progress = field(default_factory=Progress)
    error: str | None = None


class Jobs:
    """The jobs of a console, the newest last. A job that was planned and never confirmed ends here.

    Args:
        changes: told of every step.
    """

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def plan(self, job: Job) -> Job:
        """Keep a job until it is confirmed."""
        job.progress.note = self._changes.note
        with self._lock:
            self._jobs[job.id] = job
            planned = [one for one in self._jobs.values() if one.phase is not JobPhase.RUNNING]
            for old in planned[: max(0, len(self._jobs) - _MOST_KEPT)]:
                del self._jobs[old.id]
        return job

    def find(self, job_id: str) -> Job | None:
        """Return a job; None if there is none, or it was planned too long ago."""
        with self._lock:
            return self._jobs.get(job_id)

    def start(self, job: Job, why: str | None) -> bool:
        """Run a planned job in a thread of its own; return False if it was started before."""
        with self._lock:
            if job.phase is not JobPhase.PLANNED or not job.changes:
                return False
            job.phase = JobPhase.RUNNING
        thread = threading.Thread(target=self._run, args=(job, why), name=f"job {job.title}")
        thread.start()
        return True

    def _run(self, job: Job, why: str | None) -> None:
        try:
            job.work(why, job.progress)
            job.phase = JobPhase.DONE
        except StoppedError as error:
            job.phase, job.error = JobPhase.STOPPED, str(error)
        except (OpsError, BotoCoreError, ClientError) as error:
            job.phase, job.error = JobPhase.FAILED, error_with_remedy(error)
        except Exception as error:  # a thread's error would be seen by nobody
            job.phase, job.error = JobPhase.FAILED, unexpected_error_text(error)
        finally:
            self._changes.note()
