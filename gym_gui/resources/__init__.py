"""Icons, and where to find them."""
