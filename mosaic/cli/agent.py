"""`mosaic agent`: starts the agents of runs on this machine, for a daemon on another one.

It is started over ssh, or by an engine such as Ray, and never typed. It answers each line of its
input with a line and ends with its input; the agents that it has started continue.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping

import click

from mosaic.agent.agent import begin
from mosaic.agent.orders import ANSWER, BEGIN, HELLO, Hello, read_order
from mosaic.config.paths import Home
from mosaic.connect.far_end import questions
from mosaic.errors import MosaicError
from mosaic.trainer.launch import hardware
from mosaic.workers.capabilities import PROTOCOL_VERSION


@click.command(hidden=True)
def agent() -> int:
    """Start agents of runs on this machine, for as long as another machine asks."""
    # Short, and for this user alone: ssh makes the socket here that leads to the daemon.
    folder = tempfile.mkdtemp(prefix="mosaic-agent-", dir="/tmp")
    try:
        for line in questions():
            print(json.dumps({ANSWER: _answer(line, folder)}), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _answer(line: str, folder: str) -> Mapping[str, object]:
    try:
        asked = json.loads(line)
        if BEGIN in asked:
            begin(Home.locate(), read_order(asked[BEGIN]))
            return {BEGIN: asked[BEGIN]["run_id"]}
        if HELLO in asked:
            return Hello(
                folder=folder,
                protocol=PROTOCOL_VERSION,
                cpus=hardware.cpu_count(),
                memory_mb=hardware.memory_total_mb(),
                gpus=[gpu.index for gpu in hardware.probe_gpus()],
            )
    except (MosaicError, OSError, ValueError, KeyError, TypeError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": f"{os.path.basename(sys.argv[0])} agent does not know {line.strip()[:80]!r}"}
