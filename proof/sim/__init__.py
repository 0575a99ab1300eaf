"""Random runs of the unmodified handlers, one for each seed; a violation is shrunk and saved."""
