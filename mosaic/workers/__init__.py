"""The worker contract: what a worker promises, and the tools that keep the promise."""
