"""Speed beside peers: the same work, interleaved, on one thread each."""
