"""Half-open intervals ``(start, stop)`` of whole numbers: the start belongs to them, the stop does not."""
