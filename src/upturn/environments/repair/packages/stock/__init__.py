"""A store of goods: item to number of pieces."""
