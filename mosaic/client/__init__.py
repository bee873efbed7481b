"""The Python SDK: what the command line and the window are built on."""
