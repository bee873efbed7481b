"""MOSAIC: a workbench for reinforcement learning whose runs cannot be lost."""

import os

__version__ = "0.1.0"

# gRPC prepares a forked process for further calls, with a thread that polls. Where that process is
# about to become another program its files are already closed, and the thread ends it: four in a
# hundred never started beside an open connection (github.com/grpc/grpc/issues/43055). None of our
# processes makes a call after a fork. gRPC reads this when it is imported, which is after here.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
