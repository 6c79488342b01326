"""Roman numerals from 1 to 3999."""
