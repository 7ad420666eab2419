"""Which verb is a function of that name in which module. A new verb is one line here.

Nothing is imported: the server lists the names without numpy, the child loads the one module.
"""

MODULES = {
    "runtime": "verbs",
    "footprint": "verbs",
    "bench": "bench",
    "pace": "pace",
    "idle": "idle",
    "energy": "energy",
    "profile": "verbs",
    "infer": "inference",
    "build_one": "engines",
    "prove": "prove",
    "prove_one": "prove",
    "power_mode": "power",
    "health": "health",
    "install": "install",
}
INTERNAL = ("runtime", "build_one", "prove_one")
# These measure, or would disturb one that does: one such job a board at a time.
MEASURING = (
    "footprint",
    "bench",
    "pace",
    "profile",
    "energy",
    "infer",
    "power_mode",
    "install",
)
