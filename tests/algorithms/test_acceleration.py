"""Quicker steps: compiled, or replayed as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cleanrl_worker.cleanrl.ppo_atari import Args
from cleanrl_worker.kit import acceleration
from cleanrl_worker.kit.acceleration import accelerated
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.optim import Adam, RAdam
from cleanrl_worker.kit.run import Run
from cleanrl_worker.running.schema import SCRIPTS, read_schema, script_names

CPU = torch.device("cpu")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def _learn(args: TorchArgs, device: torch.device, turns: int = 12) -> list[Tensor]:
    """Fit a small network with a falling learning rate; its parameters after each turn."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = Adam(network.parameters(), 1e-2)

    def update(rows: Tensor, wanted: Tensor) -> Tensor:
        loss = (network(rows).squeeze(1) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.clip_grad_norm_(0.5)
        optimizer.step()
        return loss.detach()

    step = accelerated(update, args, device)
    generator = torch.Generator().manual_seed(1)
    seen = []
    for turn in range(turns):
        optimizer.lr = 1e-2 * (1 - turn / turns)
        rows = torch.randn(32, 6, generator=generator)
        loss = step(rows.to(device), rows.sum(dim=1).to(device))
        flat = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
        seen.append(torch.cat([flat, loss.reshape(1)]).cpu())
    return seen


@pytest.mark.prove
def test_a_compiled_update_learns_what_the_plain_one_learns() -> None:
    """Every call counts once, also the first ones, and a changing learning rate is obeyed."""
    plain = _learn(TorchArgs(), CPU)
    compiled = _learn(TorchArgs(compile=True), CPU)
    for one, other in zip(plain, compiled, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@needs_gpu
@pytest.mark.parametrize("compiled", [False, True])
def test_a_replayed_update_learns_what_the_plain_one_learns(compiled: bool) -> None:
    """Every call counts once, before, while and after the graph is recorded."""
    device = torch.device("cuda")
    plain = _learn(TorchArgs(cuda=True), device)
    replayed = _learn(TorchArgs(cuda=True, compile=compiled, cudagraphs=True), device)
    for one, other in zip(plain, replayed, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_without_flags_the_step_is_itself() -> None:
    """Nothing is wrapped that nobody asked for."""
    assert accelerated(torch.relu, TorchArgs(), CPU) is torch.relu


def test_cuda_graphs_are_refused_on_the_cpu() -> None:
    """The sentence says what to leave out or add."""
    with pytest.raises(UsageError, match="leave --cudagraphs out, or add --cuda"):
        accelerated(torch.relu, TorchArgs(cudagraphs=True), CPU)


def test_compiling_without_a_compiler_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before training, not with a traceback in the first update."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(UsageError, match="g\\+\\+, which is not installed: leave --compile out"):
        accelerated(torch.relu, TorchArgs(compile=True), CPU)


def test_a_script_has_the_flags_only_if_it_honours_them() -> None:
    """No script takes --compile and ignores it."""
    for name in script_names():
        path = SCRIPTS / f"{name}.py"
        has_flags = "cudagraphs" in read_schema(path).arguments
        honours = "accelerated(" in path.read_text() or "@accelerate" in path.read_text()
        assert has_flags == honours, name


def test_a_function_defined_again_in_every_turn_is_the_same_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the loop defines where the paper has it is compiled or recorded once, not every turn."""
    made = []

    def note(step: Callable, args: TorchArgs, device: torch.device) -> Callable:
        made.append(step)
        return step

    monkeypatch.setattr(acceleration, "accelerated", note)
    accelerate = acceleration.accelerator(TorchArgs(), CPU)
    weight, steps = torch.zeros(1), []
    for _ in range(3):

        @accelerate
        def update(amount: torch.Tensor) -> torch.Tensor:
            return weight.add_(amount)

        @accelerate
        @torch.no_grad()
        def act(amount: torch.Tensor) -> torch.Tensor:
            return weight * amount

        update(torch.ones(1))
        steps.append((update, act))
    assert len(made) == 2
    assert len(set(steps)) == 1
    assert weight.item() == 3


def test_rectified_adam_moves_the_same_by_tensors() -> None:
    """The steps taken on a GPU, where no number comes back, are those of the CPU."""
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(40)) for _ in range(2)]
    weights[1].data.copy_(weights[0].data)
    one, other = (RAdam([weight], 1e-2) for weight in weights)
    other._move_by_numbers = lambda step: other._move_by_tensors(torch.tensor(step).double())
    for _ in range(12):
        gradient = torch.randn(40)
        for optimizer in (one, other):
            optimizer.gradient.copy_(gradient)
            optimizer.step()
        torch.testing.assert_close(weights[0], weights[1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("script", "asked", "device"),
    [
        ("ppo_atari", None, "cuda"),
        ("ppo_atari", False, "cpu"),
        ("dqn_atari_jax", None, "cpu"),
        ("dqn_atari_jax", True, "cpu"),
    ],
)
def test_a_gpu_that_is_found_is_used(
    script: str,
    asked: bool | None,
    device: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As CleanRL does it, unless --no-cuda says otherwise; torch leaves the choice of JAX alone."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: script == "ppo_atari")
    args = Args(cuda=asked, run_dir=str(tmp_path))
    assert Run(args, read_schema(SCRIPTS / f"{script}.py")).device.type == device
    assert args.cuda is (bool(asked) or device == "cuda")
