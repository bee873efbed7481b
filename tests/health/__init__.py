"""Health rules on recorded curves, and alarms of real runs."""
