"""Starting with what exists: earlier sessions as if hooks had seen them, and memories that other tools keep."""
