"""What a step of the embedded model costs: processor time of the server and of the worker.

Wall-clock time depends on what else the machine does; processor time hardly does. One core, one
thread: `python benchmarks/llm.py` plays BabyAI-GoToLocal-v0 and writes results/llm.json.

The model's own time is that of its server in a bare loop of requests. The whole is a real run
under a real daemon, with pictures, records and telemetry: what a long run costs beyond a short one,
so that starting and stopping do not count. The difference is the worker's overhead.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from llm_worker.embedded.server import EmbeddedServer
from llm_worker.play.answers import Decision, read_answer
from llm_worker.play.client import ChatClient, Patience
from llm_worker.play.models import find_model
from llm_worker.play.prompts import Sampling, request_body
from llm_worker.play.world import World
from mosaic.client import TrainerClient
from mosaic.config import build
from mosaic.config.paths import Home

ENV, EPISODES = "BabyAI-GoToLocal-v0", 40
SHORT, LONG = 10, 110
RESULTS = Path(__file__).parent / "results" / "llm.json"


def main() -> None:
    """Measure and write the result."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(log=Path(folder) / "server.log")
        try:
            model = model_time(server)
        finally:
            server.close()
        whole = whole_time(Path(folder))
    result = {
        **model,
        **whole,
        "overhead_cpu_ms_per_step": round(
            whole["run_cpu_ms_per_step"] - model["model_cpu_ms_per_step"], 2
        ),
        "steps_per_second_of_one_core": round(1000 / whole["run_cpu_ms_per_step"], 1),
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def model_time(server: EmbeddedServer) -> dict[str, float]:
    """Play in a bare loop and count what the server uses."""
    world = World(ENV)
    sampling = Sampling(find_model("embedded").name, 0.0, 200, 1)
    server.where()
    process = psutil.Process(server.pid)
    steps, before = 0, sum(process.cpu_times()[:2])
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
    used = sum(process.cpu_times()[:2]) - before
    return {"model_steps": steps, "model_cpu_ms_per_step": round(used / steps * 1000, 2)}


def whole_time(folder: Path) -> dict[str, float]:
    """What a step costs in a run: worker and server, as the supervisor counted them."""
    home = Home(folder / "home")
    variables = {**os.environ, "MOSAIC_HOME": str(home.root)}
    mosaic = [sys.executable, "-m", "mosaic"]
    subprocess.run([*mosaic, "up", "--port", "0"], env=variables, check=True, capture_output=True)
    try:
        short, long = (_played(home, episodes) for episodes in (SHORT, LONG))
    finally:
        subprocess.run([*mosaic, "down"], env=variables, check=True, capture_output=True)
    steps = long[0] - short[0]
    used = long[1] - short[1]
    return {"run_steps": steps, "run_cpu_ms_per_step": round(used / steps * 1000, 2)}


def _played(home: Home, episodes: int) -> tuple[int, float]:
    """The steps of a run and its processor time."""
    config = build.train(
        build.Worker("llm", "llm_worker.cli"),
        "llm",
        env_id=ENV,
        parameters={"episodes": episodes},
    )
    with TrainerClient.connect(home) as trainer:
        record = trainer.wait(trainer.submit(config).run_id)
        assert record.completed, record.reason
        summary = trainer.read_file(record.run_id, "llm/summary.json").document()
        usage = trainer.read_file(record.run_id, "exit.json").document()["usage"]
    return int(summary["steps"]), float(usage["user_s"] + usage["system_s"])


if __name__ == "__main__":
    main()
