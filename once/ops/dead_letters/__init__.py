"""Dead letters: reading them, judging a redrive, and sending them back.

In: messages of a dead-letter queue. Out: letters, verdicts on their redrive, redriven messages.
Used by `dlq` and `trace`.
"""
