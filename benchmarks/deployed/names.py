"""The names under which the package is deployed."""

RAW, UNGROUPED, GROUPED = "raw", "ungrouped", "grouped"
NAMES = (RAW, UNGROUPED, GROUPED)
ORDERS = "orders"
"""The registry's name of the table of all three."""
