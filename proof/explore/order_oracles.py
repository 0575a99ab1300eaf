"""Oracles of an exploration of the FIFO consumers: order in every state, and all of it at rest."""

from proof.ordered.ledger import OrderLedger


class OrderOracles:
    """Checks the states of one execution; see `proof.explore.oracles.Oracles`.

    Attributes:
        commits, published: empty; the tables tell all that the oracles depend on.
    """

    def __init__(self, ledger: OrderLedger) -> None:
        self.commits: dict[str, set[str]] = {}
        self.published: set[tuple[str, str, bool]] = set()
        self.expired_at: float | None = None
        self._ledger = ledger

    def check_state(self) -> None:
        """Check the order of each account. Raises Violation."""
        self._ledger.check_state()

    def check_rest(self, *, is_disturbed: bool) -> None:
        """Check that every entry has come. Raises Violation."""
        del is_disturbed
        self._ledger.check_rest()
