"""The names under which the packages are deployed."""

NAMES = NOTHING, RAW, POWERTOOLS, UNGROUPED, GROUPED = (
    *("nothing", "raw", "powertools"),
    *("ungrouped", "grouped"),
)
PLAIN_FUNCTION = PLAIN_TABLE = "verify-then-put"
"""Physical names of the plain webhook function and of its table."""
