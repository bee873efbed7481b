"""The checks and the mutants of each family of algorithms; `mutants.catalog` collects them."""
