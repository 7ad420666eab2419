"""A learned policy over the choices of a space: which alternative to change next, or to stop.

`assignment` is the problem (many plans at once), `network` the message passing and the pointer
(NumPy alone), `source` hands it to a search. Training (`imitation`, `group`, `ppo`) needs torch
and is imported by `edgeopt train` only.
"""
