"""Hours of a busy home in minutes: real runs, random kills, and a ledger at the end."""
