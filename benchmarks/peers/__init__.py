"""Other memories and search programs beside Scrimshaw, each in an environment of its own; run by hand."""
