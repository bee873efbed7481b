"""The algorithms, one file each, readable beside the paper."""
