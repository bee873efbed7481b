"""Run configuration: the model, its validation, settings, paths and secrets."""
