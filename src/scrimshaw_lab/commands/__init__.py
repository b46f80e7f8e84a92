"""The commands of this package, found by `scrimshaw` through the entry points of `scrimshaw.commands`."""
