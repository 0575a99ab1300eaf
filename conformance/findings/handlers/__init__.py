"""The public handlers that were checked."""

from findings.handlers import (
    delayed_fifo,
    document_queue,
    email_remediation,
    forward_to_queue,
    notification,
    order_persister,
    powertools_batch,
    spreadsheet_import,
)

ALL = (
    document_queue.HANDLER,
    powertools_batch.HANDLER,
    order_persister.HANDLER,
    email_remediation.HANDLER,
    delayed_fifo.HANDLER,
    notification.HANDLER,
    forward_to_queue.HANDLER,
    spreadsheet_import.HANDLER,
)
