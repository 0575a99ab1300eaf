"""Takes orders over HTTP."""
