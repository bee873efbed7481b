"""One training put together: what it begins with, updates, checkpoints, the result."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

import torch

from llm_worker.embedded.server import default_model
from llm_worker.errors import ModelError, RecordError
from llm_worker.learn import checkpoints
from llm_worker.learn.grpo import GroupLearning
from llm_worker.learn.playing import Playground
from llm_worker.learn.settings import BcSettings, GrpoSettings
from llm_worker.learn.sources import gather
from llm_worker.learn.writing import Writer
from llm_worker.model import train
from llm_worker.model.corpus import read_tokenizer, write_corpus
from llm_worker.model.export import export, read_model
from llm_worker.model.tokenizer import Tokenizer
from llm_worker.play.actions import Json
from llm_worker.process import LlmProcess
from mosaic.curves.names import SPEED
from mosaic.statistics.episodes import wilson
from mosaic.system import atomic

Settings = BcSettings | GrpoSettings
# Success and return by name; empty when nothing was played.
Measurement = dict[str, float]
CORPUS, START, RESULT, SUMMARY = (
    "llm/examples.npz",
    "llm/start.gguf",
    "llm/model.gguf",
    "llm/learned.json",
)
# Seeds of the measurements: below those of all training, and none that people name first.
FIRST_MEASURED = 500_000
_FIND_A_RUN = "`mosaic runs` lists the runs"


class Training(Protocol):
    """What both ways of learning offer."""

    model: train.Llama

    @property
    def step(self) -> int: ...
    def advance(self) -> dict[str, float]: ...
    def state(self) -> train.LearnerState: ...
    def restore(self, state: train.LearnerState) -> None: ...


class BehaviourCloning:
    """Imitation with its numbers in words."""

    def __init__(self, imitation: train.Imitation) -> None:
        self._imitation = imitation
        self.model = imitation.model

    @property
    def step(self) -> int:
        """Updates so far."""
        return self._imitation.step

    def advance(self) -> dict[str, float]:
        """Learn from one batch."""
        update = self._imitation.advance()
        right = train.accuracy(update.logits, update.targets)
        return {"losses/imitation": update.loss.item(), "llm/replies_right": right}

    def state(self) -> train.LearnerState:
        """What another process needs to continue."""
        return self._imitation.state()

    def restore(self, state: train.LearnerState) -> None:
        """Continue from what `state` gave."""
        self._imitation.restore(state)


def learn(process: LlmProcess, settings: Settings) -> None:
    """Train to the end, from the beginning or from the newest checkpoint.

    Raises:
        LlmError: There is nothing to learn from, or the checkpoint does not fit.
    """
    device = _device(settings.device)
    kept = CORPUS if isinstance(settings, BcSettings) else START
    if settings.checkpoint_path:
        earlier = checkpoints.earlier_run(settings.checkpoint_path)
        checkpoints.take_over(process.run_dir, earlier, kept)
    training, tokenizer, heads = _begin(process.run_dir, settings, device)
    state = checkpoints.load(process.run_dir)
    measured = Measured(settings, tokenizer)
    before: Measurement = {}
    if state is not None:
        training.restore(state["training"])
        before = state["before"]
        process.emit.note("note", {"text": f"continues after update {training.step}"})
    else:
        before = measured.play(training.model)
    if _update(process, settings, training, before):
        after = measured.play(training.model)
        _finish(process, settings, training, tokenizer, heads, before, after)


def preview(settings: Settings) -> str:
    """What a training would do.

    Raises:
        LlmError: What it is to begin with, or to imitate, is not there.
    """
    if isinstance(settings, BcSettings):
        if settings.recorded and not Path(settings.recorded).is_dir():
            raise RecordError(f"recorded: there is no run {settings.recorded}", _FIND_A_RUN)
        return (
            f"{settings.updates} updates with {settings.batch} examples each on "
            f"{_device(settings.device)}; from {settings.bot_episodes} episodes of the bot"
            + (f" and {settings.recorded}" if settings.recorded else "")
        )
    start = _start_file(settings.start_from)
    return (
        f"{settings.updates} rounds of {settings.groups} × {settings.group_size} episodes in "
        f"{settings.env_id} on {_device(settings.device)}, beginning with {start.name}"
    )


class Measured:
    """Plays the same unseen worlds before and after."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer) -> None:
        self._settings, self._tokenizer = settings, tokenizer

    def play(self, model: train.Llama) -> Measurement:
        """Success and return with the likeliest words; nothing when none is asked for."""
        settings, count = self._settings, self._settings.eval_episodes
        if not count:
            return {}
        ground = Playground(settings.env_id, settings.eval_steps)
        try:
            writer = Writer(model, self._tokenizer)
            seeds = range(FIRST_MEASURED, FIRST_MEASURED + count)
            episodes = ground.play(writer, seeds, 0.0, torch.Generator())
        finally:
            ground.close()
        won = sum(episode.success for episode in episodes)
        low, high = wilson(won, count)
        return {
            "episodes": count,
            "success": won / count,
            "success_low": low,
            "success_high": high,
            "return": sum(episode.total for episode in episodes) / count,
        }


def _begin(
    run_dir: Path, settings: Settings, device: torch.device
) -> tuple[Training, Tokenizer, int]:
    (run_dir / "llm").mkdir(parents=True, exist_ok=True)
    if isinstance(settings, GrpoSettings):
        start = run_dir / START
        if not start.exists():
            atomic.write_bytes(start, _start_file(settings.start_from).read_bytes())
        model, tokenizer = read_model(start)
        return GroupLearning(settings, model.to(device), tokenizer), tokenizer, model.shape.heads
    data = run_dir / CORPUS
    if not data.exists():
        recorded = Path(settings.recorded) if settings.recorded else None
        found = gather(settings.bot_episodes, recorded, settings.env_id)
        # Written whole: a kill in between makes the examples again.
        half = data.with_name("examples.half.npz")
        write_corpus(found, half)
        half.rename(data)
    corpus = train.Corpus.load(data, device)
    shape = train.Shape(
        corpus.vocabulary, settings.width, settings.layers, settings.heads, settings.hidden
    )
    imitation = train.Imitation(
        corpus, shape, settings.updates, settings.batch, settings.learning_rate, settings.seed
    )
    return BehaviourCloning(imitation), read_tokenizer(data), settings.heads


def _update(
    process: LlmProcess, settings: Settings, training: Training, before: Measurement
) -> bool:
    """Learn until the end; False when the run is stopped before it."""

    def save() -> None:
        state: checkpoints.State = {"training": training.state(), "before": before}
        checkpoints.save(process, state, training.step)

    began, first = time.monotonic(), training.step
    if not training.step:
        save()
    while training.step < settings.updates:
        if not process.safe_point(save):
            save()
            return False
        values = training.advance()
        elapsed = max(1e-9, time.monotonic() - began)
        values[SPEED] = (training.step - first) / elapsed
        process.emit.metrics(training.step, settings.updates, values)
        due = settings.checkpoint_every and training.step % settings.checkpoint_every == 0
        if due or training.step == settings.updates:
            save()
    return True


def _finish(
    process: LlmProcess,
    settings: Settings,
    training: Training,
    tokenizer: Tokenizer,
    heads: int,
    before: Measurement,
    after: Measurement,
) -> None:
    weights = process.run_dir / "llm" / "weights.npz"
    train.save(training.model, weights)
    export(weights, tokenizer, heads, process.run_dir / RESULT)
    weights.unlink()
    result: Json = {
        "updates": training.step,
        "before": dict(before),
        "after": dict(after),
        "model": RESULT,
    }
    atomic.write_json(process.run_dir / SUMMARY, result)
    if after:
        values = {"success": after["success"], "episodic_return": after["return"]}
        process.emit.metrics(training.step, settings.updates, values)
    process.summary = result


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ModelError("device: there is no CUDA device here", "use --device cpu")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _start_file(name: str) -> Path:
    """The model that a training improves."""
    if not name:
        return default_model()
    path = Path(name)
    file = path / RESULT if path.is_dir() else path
    if not file.exists():
        raise ModelError(
            f"start_from: {name} has no model",
            f"name a run of llm_bc or llm_grpo that has ended, or a FILE.gguf; {_FIND_A_RUN}",
        )
    return file
