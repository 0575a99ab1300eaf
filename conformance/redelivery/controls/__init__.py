"""The handlers of the self-check, as a function's package has them."""
