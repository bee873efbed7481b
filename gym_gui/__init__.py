"""The Qt workbench: train, watch and analyse from one window, on the client SDK alone."""
