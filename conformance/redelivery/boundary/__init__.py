"""The boundary of the handler's process: every call that leaves it.

In: calls of the AWS SDK, of HTTP libraries and of declared methods. Out: their answers, or the
fault that is planned for a call; a record of what each call changed.
"""
