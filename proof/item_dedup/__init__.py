"""Item dedup under random schedules and faults: a consumer whose records are on its items."""
