"""Icons and where they lie."""
