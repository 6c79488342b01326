"""Maps of rows of characters: ``#`` is a wall, everything else is free."""
