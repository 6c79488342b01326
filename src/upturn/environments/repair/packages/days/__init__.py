"""Days of the Gregorian calendar as ``(year, month, day)``."""
