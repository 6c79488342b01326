"""Words, lines and counts of texts."""
