"""Warnings and errors in the output of the CDK's command line."""

from emulator.cdk_cli import warnings_of

LOG = """\
WARNING consumer 'tickets': the event types cannot be read (tickets/handler.py:21)
   box-office-service/tickets constructs.Construct
   Acknowledge with 'Annotation::once:unread-handlers'
Successfully synthesized to cdk.out
WARNING consumer 'tickets': the event types cannot be read (tickets/handler.py:21)
[Warning at /box-office-service] events can cause one another
"""


def test_each_warning_of_the_synthesis_is_returned_once() -> None:
    assert warnings_of(LOG) == [LOG.splitlines()[0], LOG.splitlines()[-1]]
