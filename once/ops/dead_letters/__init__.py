"""Dead letters: the command group `dlq`, and what other commands read of them.

In: messages of dead-letter queues, and dedup records. Out: messages, verdicts on their redrive,
redriven messages, archived lines.
"""
