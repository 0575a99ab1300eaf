"""Dead letters: reading them, assessing a redrive, and sending them back.

In: messages of dead-letter queues, and dedup records. Out: letters, verdicts on their redrive,
redriven messages. Used by `dlq` and `trace`.
"""
