"""Where runs are executed: this machine, or a cluster that an engine manages."""
