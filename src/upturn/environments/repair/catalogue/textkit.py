"""Inputs of ``textkit``."""

from upturn.environments.repair.catalogue.samples import Package, number, sentence, word

PACKAGE = Package(
    "textkit",
    {
        "words": {
            "split_words": lambda rng: (sentence(rng),),
            "title_case": lambda rng: (sentence(rng),),
            "initials": lambda rng: (sentence(rng), number(rng, 1, 4)),
        },
        "lines": {
            "wrap": lambda rng: (sentence(rng, 10), number(rng, 5, 16)),
            "indent": lambda rng: (
                sentence(rng, 2) + "\n" * number(rng, 0, 2) + sentence(rng, 3),
                number(rng, 1, 4),
            ),
            "justify": lambda rng: (sentence(rng, 8), number(rng, 6, 16)),
        },
        "counts": {
            "count_words": lambda rng: (sentence(rng, 10),),
            "most_common": lambda rng: (sentence(rng, 14), number(rng, 1, 4)),
            "longest_run": lambda rng: (word(rng, "ab", 10),),
        },
    },
)
