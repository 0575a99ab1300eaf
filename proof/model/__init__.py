"""The protocol in a small scope: every interleaving and every fault, and what must hold.

`scopes` says what small worlds there are, `world` what a state of one is made of. `consumer`,
`judge`, `performer` and `carriers` are the protocol, `services` what AWS and the provider do,
`faults` and `moves` what may happen next; `oracles` are the promises. `explorer` goes through it
all. `broken` holds protocols that must be caught, `mutants` says where.

What is left out: delays, since every order is explored anyway; a lease lasts exactly as long as its
owner's function; attempts are bounded at two, so that two faults exhaust them. Copies of one event
that are equally untouched are told apart by nothing, and taken in one order.
"""

from proof.model.explorer import Explored, Violation, explore
from proof.model.mutants import mutants
from proof.model.scopes import SCOPES, SHORT

__all__ = ["SCOPES", "SHORT", "Explored", "Violation", "explore", "mutants"]
