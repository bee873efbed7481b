"""The `mosaic` command."""
