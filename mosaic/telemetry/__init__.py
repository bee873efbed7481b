"""The telemetry lane: per-step and per-episode records, from a worker to the screen and the store.

`records` and `credits` are pure; `hub` moves records inside the daemon, `store` keeps them in the
run directory, `emitter` is the worker's end, `service` the daemon's end of the wire, `replay`
and `video` read a recorded episode again.
"""
