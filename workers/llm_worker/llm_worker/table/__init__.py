"""Games for several players, each with a model, a bot or chance."""
