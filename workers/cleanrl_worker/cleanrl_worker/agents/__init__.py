"""Networks that several algorithm files share."""
