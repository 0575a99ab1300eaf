"""Is a Lambda consumer idempotent? Runs any SQS handler under duplicates, crashes and lost answers.

In: a `Subject`: an unmodified handler, the resources it needs, samples of its messages. Each
scenario delivers the messages with one fault, in process, on a simulated AWS. Out: a `Report` of
what was lost, doubled, stuck, overwritten or acknowledged early, compared with a clean run.
"""

from redelivery.check import check
from redelivery.faults import MEANING, Fault
from redelivery.report import Difference, Kind, Report, Result
from redelivery.subject import Answer, Index, Method, NoVerdict, Store, Subject, SubjectError, Table

__all__ = [
    "MEANING",
    "Answer",
    "Difference",
    "Fault",
    "Index",
    "Kind",
    "Method",
    "NoVerdict",
    "Report",
    "Result",
    "Store",
    "Subject",
    "SubjectError",
    "Table",
    "check",
]
