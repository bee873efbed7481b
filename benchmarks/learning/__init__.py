"""Learning records: what each algorithm reaches, and the page made from them."""
