"""What the daemon decides, without touching anything: states, stimuli, decisions, the scheduler."""
