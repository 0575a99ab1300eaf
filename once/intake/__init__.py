"""Intake: an SQS record in; a delivery out, with the task to run or the error why there is none.

Checks the source of an event, and restores the attributes of a message that was redriven. Used by
`batch`, and by `failures` to quarantine the message as it was sent.
"""
