"""Everything that may take time: calls, streams, frames, child processes. Never the GUI thread."""
