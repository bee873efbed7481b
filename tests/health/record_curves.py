"""Makes the curves that the health rules are tested on: `python tests/health/record_curves.py`.

Each case is a short real training: unchanged for the good ones, with a setting or a line of the
script broken for the others. What is kept is what the run stored of its numbers, thinned. Names of
cases on the command line record only those.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from mosaic.curves.names import name_of

FOLDER = Path(__file__).parent / "curves"
SCRIPTS = Path(__file__).parents[2] / "workers/cleanrl_worker/cleanrl_worker/cleanrl"
_MOST_POINTS = 60
_DIGITS = 5


@dataclass(frozen=True)
class Case:
    """One training.

    Attributes:
        script: The algorithm.
        flags: Its arguments.
        broken: A piece of the script and what it is replaced with; empty for none.
        alarm: The rule that must fire; empty for a healthy run.
    """

    script: str
    flags: str
    broken: tuple[str, str] = ("", "")
    alarm: str = ""


_PPO = "--total-timesteps 40960"
_LONG = "--total-timesteps 251904"
_DQN = "--total-timesteps 12000 --learning-starts 1000 --buffer-size 5000 --train-frequency 4"
_NO_END = "args.gamma * target_max * (1 - dones)"
CASES = {
    "good_ppo": Case("ppo", _PPO),
    "good_ppo_seed_2": Case("ppo", f"{_PPO} --seed 2"),
    "good_ppo_long": Case("ppo", "--total-timesteps 151552 --seed 3"),
    "good_dqn": Case("dqn", _DQN),
    "good_pqn": Case("pqn", _PPO),
    "good_ppo_continuous": Case(
        "ppo_continuous_action", "--env-id Pendulum-v1 --total-timesteps 40960"
    ),
    "good_td3": Case(
        "td3_continuous_action",
        "--env-id Pendulum-v1 --total-timesteps 2500 --learning-starts 500 --buffer-size 2500",
    ),
    "learning_rate_1": Case("ppo", f"{_PPO} --learning-rate 1", alarm="kl-explosion"),
    "clip_100": Case(
        "ppo", f"{_PPO} --clip-coef 100 --learning-rate 0.03 --max-grad-norm 100",
        alarm="kl-explosion",
    ),
    "learning_rate_0": Case("ppo", f"{_PPO} --learning-rate 1e-12", alarm="kl-zero"),
    "entropy_bonus_huge": Case("ppo", f"{_PPO} --ent-coef 10", alarm="entropy-stuck"),
    "reward_never_found": Case("ppo", f"{_PPO} --env-id Acrobot-v1", alarm="entropy-stuck"),
    "entropy_bonus_negative": Case(
        "ppo", f"{_PPO} --env-id Acrobot-v1 --ent-coef 1 --learning-rate 0.001",
        ("pg_loss - args.ent_coef * entropy", "pg_loss + args.ent_coef * entropy"),
        "entropy-collapse",
    ),
    "policy_sign": Case(
        "ppo", _PPO, ("pg_loss = -torch.min(", "pg_loss = torch.max("), "unlearning"
    ),
    "reward_sign": Case(
        "ppo", _PPO, ("deltas = rewards +", "deltas = -rewards +"), "unlearning"
    ),
    "critic_frozen": Case("ppo", f"{_PPO} --vf-coef 0", alarm="critic-blind"),
    "critic_sign": Case(
        "ppo", _PPO,
        ("+ args.vf_coef * v_loss", "- args.vf_coef * v_loss"), "critic-blind",
    ),
    "learning_rate_tiny": Case("ppo", f"{_LONG} --learning-rate 3e-6", alarm="entropy-stuck"),
    "discount_small": Case("ppo", f"{_LONG} --gamma 0.3 --gae-lambda 0.3", alarm="below-known"),
    "dqn_learning_rate_1": Case("dqn", f"{_DQN} --learning-rate 1", alarm="value-explosion"),
    "dqn_target_sign": Case(
        "dqn", f"{_DQN} --gamma 1 --learning-rate 0.01 --target-network-frequency 8",
        (_NO_END, "args.gamma * 1.05 * target_max"), "value-explosion",
    ),
}  # fmt: skip


def main(names: list[str]) -> None:
    """Record the cases, or those that are named."""
    import torch  # noqa: F401  # here, once: each case is forked from this process

    for name in names or CASES:
        pid = os.fork()
        if not pid:
            _child(name)
        _, status = os.waitpid(pid, 0)
        print(name, "recorded" if status == 0 else f"ended {status}", flush=True)


def _child(name: str) -> NoReturn:
    code = 1
    try:
        with tempfile.TemporaryDirectory() as folder:
            _record(name, CASES[name], Path(folder))
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


def _record(name: str, case: Case, folder: Path) -> None:
    text = (SCRIPTS / f"{case.script}.py").read_text()
    before, after = case.broken
    assert before in text, f"{case.script} has no {before!r}"
    script = folder / f"{case.script}.py"
    script.write_text(text.replace(before, after) if before else text)
    os.environ["MOSAIC_RUN_DIR"] = str(folder)
    sys.argv = [str(script), *case.flags.split(), "--run-dir", str(folder)]
    began = time.monotonic()
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit:
        pass  # a run that diverges ends early, with what it has stored
    document = {
        "made_by": f"python tests/health/record_curves.py {name}",
        "script": case.script,
        "flags": case.flags,
        "broken": list(case.broken) if before else [],
        "total": int(case.flags.split("--total-timesteps ")[1].split()[0]),
        "curves": _curves(folder),
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")
    print(f"{time.monotonic() - began:.0f} s", end=" ", flush=True)


def _curves(folder: Path) -> dict[str, list[list[float]]]:
    from mosaic.runs.metrics import MetricReader

    reader = MetricReader(folder)
    found = {}
    for tag in reader.tags():
        name = name_of(tag)
        if name is None or name == "sps":
            continue  # the speed of another machine says nothing
        points = reader.read(tag)
        every = max(1, len(points) // _MOST_POINTS)
        found[name] = [
            [int(point["step"]), float(f"{point['value']:.{_DIGITS}g}")]
            for point in points[::every]
        ]
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
