"""What a run leaves on disk: identity, directory, events, metrics and manifests."""
