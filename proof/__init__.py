"""Proofs: exploration, simulator, crash points, fuzzing, soak and mutation testing."""
