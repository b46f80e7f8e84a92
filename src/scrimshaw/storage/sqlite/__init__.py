"""The ports in SQLite. Only `storage.databases` names these modules."""
