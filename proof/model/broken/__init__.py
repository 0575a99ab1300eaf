"""Broken protocols, which the explorer must catch."""
