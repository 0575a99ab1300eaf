"""Scenario `hostile`: hostile messages ahead of healthy ones, and their effects counted.

In: a deployed shop with one more consumer, `app`. Out: `reports/hostile.json`, and whether every
healthy message committed once. Used by `demo.command`. The messages, and what counts their
effects, share no code with the library.
"""
