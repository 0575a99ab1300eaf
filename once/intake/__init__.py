"""Intake: an SQS record in; a delivery out, with its decoded event or the error of decoding it.

Checks the source of an event, and restores the attributes of a message that was redriven. Used by
`batch`, and by `failures` to quarantine the message as it was sent.
"""
