"""Success, cost and code size of each algorithm, on toys and in errands. Start with ``bench``."""
