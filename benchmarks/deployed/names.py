"""The names under which the package is deployed."""

NOTHING, RAW, POWERTOOLS, UNGROUPED, GROUPED = (
    *("nothing", "raw", "powertools"),
    *("ungrouped", "grouped"),
)
NAMES = (NOTHING, RAW, POWERTOOLS, UNGROUPED, GROUPED)
ORDERS = "orders"
"""The registry's name of the table of all."""
