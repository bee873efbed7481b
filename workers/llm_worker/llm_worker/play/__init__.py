"""One agent that plays: prompts, answers, records, budgets."""
