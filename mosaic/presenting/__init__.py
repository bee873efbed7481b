"""How runs are shown to people, the same in the window and in the browser. Pure."""
