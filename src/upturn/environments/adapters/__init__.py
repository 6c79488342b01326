"""Any kit as what other projects use. Each module imports its project, so none is imported from here."""
