"""What a step of the embedded model costs: processor time of the server and of the worker.

Wall-clock time depends on what else the machine does; processor time hardly does. One core, one
thread: `python benchmarks/llm.py` plays BabyAI-GoToLocal-v0 and writes results/llm.json.
"""

import json
import tempfile
import time
from pathlib import Path

import psutil

from llm_worker.embedded.server import EmbeddedServer
from llm_worker.play.answers import Decision, read_answer
from llm_worker.play.client import ChatClient, Patience
from llm_worker.play.models import find_model
from llm_worker.play.prompts import Sampling, request_body
from llm_worker.play.world import World

ENV, EPISODES = "BabyAI-GoToLocal-v0", 40
RESULTS = Path(__file__).parent / "results" / "llm.json"


def main() -> None:
    """Measure and write the result."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(log=Path(folder) / "server.log")
        try:
            result = measure(server)
        finally:
            server.close()
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def measure(server: EmbeddedServer) -> dict[str, float]:
    """Play and count."""
    world = World(ENV)
    sampling = Sampling(find_model("embedded").name, 0.0, 200, 1)
    server.where()
    process = psutil.Process(server.pid)
    steps = 0
    served, own, wall = sum(process.cpu_times()[:2]), time.process_time(), time.monotonic()
    with ChatClient(server.where, Patience(60, 3, 60)) as client:
        for seed in range(EPISODES):
            world.begin(seed)
            ended = False
            while not ended:
                body = request_body("", [], world.text(), "schema", world.actions, sampling)
                answer = read_answer(client.ask(body).reply.text, world.actions)
                assert isinstance(answer, Decision)
                ended = world.act(answer.action).ended
                steps += 1
    served, own = sum(process.cpu_times()[:2]) - served, time.process_time() - own
    return {
        "steps": steps,
        "server_cpu_ms_per_step": round(served / steps * 1000, 2),
        "worker_cpu_ms_per_step": round(own / steps * 1000, 2),
        "steps_per_second_of_one_core": round(steps / (served + own), 1),
        "wall_ms_per_step": round((time.monotonic() - wall) / steps * 1000, 2),
    }


if __name__ == "__main__":
    main()
