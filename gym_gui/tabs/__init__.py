"""The tabs a run can have."""
