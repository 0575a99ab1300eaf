"""The names under which the one package is deployed."""

RAW, UNGROUPED, GROUPED = "raw", "ungrouped", "grouped"
NAMES = (RAW, UNGROUPED, GROUPED)
ORDERS = "orders"
"""The table of all three, by its name in the registry."""
