"""Small widgets that know nothing of runs or daemons."""
