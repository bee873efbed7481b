"""What a run leaves on disk: identity, directory, events, metrics, logs and provenance."""
