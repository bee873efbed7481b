"""Between models and widgets: what an action does, which tabs a run gets."""
