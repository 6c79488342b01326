"""How many personal identifiers the pool's privacy detectors find, and how many other words they leave alone.

The documents are made here, with templates and number forms of their own: ``identifiers`` makes values,
``documents`` puts them into texts, ``measurement`` counts. Nothing here is read by the detectors."""
