"""Commands beside the worker: listing environments, installing extras, recording play."""
