"""The webhook ingress under random schedules and faults, with providers and attackers."""
