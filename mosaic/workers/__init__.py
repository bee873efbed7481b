"""The worker contract: what a worker promises, and the tools that keep the promise.

A worker needs this package. For frames, curves and records it may use `mosaic.fastlane`,
`mosaic.runs` and `mosaic.telemetry`; nothing of the daemon or the client.
"""

from mosaic.config.paths import Home
from mosaic.config.secrets import resolve as resolve_secret
from mosaic.config.suggest import allowed_names, did_you_mean
from mosaic.errors import HandshakeRefusedError, Problem
from mosaic.workers.capabilities import PROTOCOL_VERSION, WorkerCapabilities
from mosaic.workers.handshake import WorkerSession
from mosaic.workers.lifecycle import LifecycleEmitter
from mosaic.workers.process import WorkerProcess, load_config

__all__ = [
    "PROTOCOL_VERSION",
    "HandshakeRefusedError",
    "Home",
    "LifecycleEmitter",
    "Problem",
    "WorkerCapabilities",
    "WorkerProcess",
    "WorkerSession",
    "allowed_names",
    "did_you_mean",
    "load_config",
    "resolve_secret",
]
