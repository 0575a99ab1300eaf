"""The self-check: each control must be judged rightly before a verdict counts.

It runs once for an installed version. A file in the user's cache folder says that it has.
"""

import contextlib
import hashlib
import os
import platform
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from redelivery.examination import examine
from redelivery.faults import Fault
from redelivery.report import Kind
from redelivery.subject import NoVerdict, Subject, Table

_SOURCES = Path(__file__).parent
_SIMULATION = ("boto3", "botocore", "moto", "time-machine", "urllib3")


@dataclass(frozen=True, slots=True)
class Control:
    """A handler whose verdict is known: what a fault must show of it, None if it is sound."""

    name: str
    fault: Fault
    kind: Kind | None = None
    judged: bool = True

    def subject(self, folder: str = "") -> Subject:
        """Return the handler with its resources and one sample; it writes files into a folder."""
        tables = [Table("orders", "order_id")]
        if self.name == "message_id_as_key":
            tables.append(Table("processed", "message_id", compared=False))
        return Subject(
            handler=f"handlers.{self.name}",
            root=_SOURCES / "controls",
            events=[{"order_id": "o-1", "amount": 5}],
            tables=tables,
            buckets=["orders"] if self.name == "upload" else [],
            environment={"QUEUE_URL": "{source}", "FOLDER": folder},
            key="order_id",
        )


CONTROLS = (
    Control("ack_before_write", Fault.DIES_BEFORE, Kind.ACKNOWLEDGED_EARLY),
    Control("get_then_put", Fault.IN_PARALLEL, Kind.DOUBLED),
    Control("message_id_as_key", Fault.SENT_AGAIN, Kind.DOUBLED),
    Control("token_alone", Fault.AFTER_EXPIRY, Kind.DOUBLED),
    Control("token_alone", Fault.SENT_AGAIN),
    Control("charge_without_key", Fault.ANSWER_LOST, Kind.DOUBLED),
    Control("marker_in_a_file", Fault.REDRIVEN, judged=False),
    Control("upload", Fault.ANSWER_LOST_RETRIED),
)


@cache
def self_check() -> dict[str, bool]:
    """Return for each control and its fault whether it was judged rightly."""
    names = {f"{control.name}: {control.fault}": control for control in CONTROLS}
    passed = _passed()
    if passed.exists():
        return dict.fromkeys(names, True)
    judged = {name: _is_judged_rightly(control) for name, control in names.items()}
    if all(judged.values()):
        with contextlib.suppress(OSError):  # without a cache folder, it runs every time
            passed.parent.mkdir(parents=True, exist_ok=True)
            passed.touch()
    return judged


def _passed() -> Path:
    """Return the file that says that this version, with what it runs on, has passed."""
    versions = [platform.python_version(), *map(version, _SIMULATION)]
    content = hashlib.sha256(" ".join(versions).encode())
    for source in sorted(_SOURCES.rglob("*.py")):
        content.update(source.read_bytes())
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "pytest-redelivery" / f"{content.hexdigest()[:32]}.passed"


def _is_judged_rightly(control: Control) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        try:
            results = examine(control.subject(folder), only=[control.fault]).results
        except NoVerdict:
            return not control.judged
    fired = [result for result in results if result.fired]
    found = {difference.kind for result in fired for difference in result.differences}
    return control.judged and bool(fired) and found == ({control.kind} if control.kind else set())
