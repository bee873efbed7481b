"""The model server's process: llama.cpp on a free loopback port, for the owner of one token.

The first line on stdout is the address. The token comes on stdin, not as an argument, which other
users could read; when stdin closes, the worker has ended and so does the server.
"""

from __future__ import annotations

import argparse
import sys


def main() -> None:
    """Serve one GGUF file until stdin closes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cache", action="store_true", help="reuse the work for equal beginnings")
    options = parser.parse_args()
    token = sys.stdin.readline().strip()
    address = serve(options.model, token, options.context, options.threads, options.cache)
    print(address, flush=True)
    sys.stdin.read()


def serve(model: str, token: str, context: int, threads: int, cache: bool) -> str:
    """Start the server inside this process; returns its address."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [token]
    params.n_ctx = context
    # One slot and one thread: without a cache the same request gives the same reply, to the last
    # bit, whatever was asked before.
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.n_threads_http = 2
    params.n_gpu_layers = 0
    params.cache_prompt = cache
    params.cache_ram_mib = 0
    params.warmup = False
    params.verbosity = 0
    params.ui = False
    server = xllamacpp.Server(params)
    # Kept for the life of the process: the server stops when it is collected.
    globals()["_server"] = server
    return str(server.listening_address)


if __name__ == "__main__":
    main()
