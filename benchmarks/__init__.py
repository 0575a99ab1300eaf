"""What each way of handling a batch costs: `make bench`. How and why: docs/performance.md."""
