"""Inputs of ``likeness``."""

from upturn.environments.repair.catalogue.samples import Package, word

PACKAGE = Package(
    "likeness",
    {
        "common": {
            "common_prefix": lambda rng: (word(rng, "ab", 5), word(rng, "ab", 5)),
            "common_suffix": lambda rng: (word(rng, "ab", 5), word(rng, "ab", 5)),
            "longest_common": lambda rng: (word(rng, "abc", 6), word(rng, "abc", 6)),
        },
        "distances": {
            "edits": lambda rng: (word(rng, "abc", 5), word(rng, "abc", 5)),
            "differing": lambda rng: (word(rng, "ab", 5), word(rng, "ab", 5)),
            "likeness": lambda rng: (word(rng, "abc", 6), word(rng, "abc", 6)),
            "nearest": lambda rng: (
                word(rng, "abc", 4, 1),
                [word(rng, "abc", 4, 1) for _ in range(rng.randint(0, 4))],
            ),
        },
    },
)
