"""Formulae of whole numbers, with ``+ - *`` and brackets."""
