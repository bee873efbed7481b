"""Actions as data: menus, shortcuts and the palette read the same list."""
