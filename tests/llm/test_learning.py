"""The small model learns by imitation and by reward, and continues after a kill."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from llm_worker.errors import RecordError, SettingsError
from llm_worker.learn.settings import BcSettings, GrpoSettings, from_config
from llm_worker.model.examples import Example, reply_text

torch = pytest.importorskip("torch")
pytest.importorskip("gguf")

ENV = "BabyAI-GoToObj-v0"
TINY: dict[str, Any] = {"width": 16, "layers": 1, "heads": 2, "hidden": 32, "batch": 8}
QUICK: dict[str, Any] = {"eval_episodes": 0, "device": "cpu", "checkpoint_every": 2}
EXAMPLES = [
    Example(f"Goal: go to the {color} {kind}\nSeen: {number}", reply_text("it", "go forward"))
    for number, (color, kind) in enumerate(
        (color, kind) for color in ("red", "blue", "green") for kind in ("ball", "box", "key")
    )
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Nine examples in which every color and kind is one token."""
    from llm_worker.describe.grid import COLORS
    from llm_worker.model.corpus import EXCHANGEABLE_KINDS, write_corpus

    words = " ".join([*COLORS, *EXCHANGEABLE_KINDS])
    path = tmp_path / "examples.npz"
    write_corpus([*EXAMPLES, Example(f"all: {words} {words}", "x")], path)
    return path


def _imitation(path: Path, steps: int) -> Any:
    from llm_worker.model import train

    corpus = train.Corpus.load(path, torch.device("cpu"))
    shape = train.Shape(corpus.vocabulary, 16, 1, 2, 32)
    return train.Imitation(corpus, shape, steps, 4, 1e-2, 1)


def _same(one: Any, other: Any) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_imitation_continues_to_the_last_bit(corpus: Path) -> None:
    """Six updates are three and three more from what was saved, in every weight."""
    whole, first, second = (_imitation(corpus, 6) for _ in range(3))
    for _ in range(6):
        whole.advance()
    for _ in range(3):
        first.advance()
    second.restore(first.state())
    for _ in range(3):
        second.advance()
    assert second.step == 6
    assert _same(whole.model, second.model)
    assert not _same(whole.model, first.model)


def test_replies_written_side_by_side_are_those_written_alone(corpus: Path) -> None:
    """Prompts of different lengths do not disturb each other, nor does remembering the past."""
    from llm_worker.learn.writing import Writer
    from llm_worker.model.corpus import read_tokenizer

    model = _imitation(corpus, 1).model
    writer = Writer(model, read_tokenizer(corpus))
    prompts = [writer.asked(text) for text in ("red", "Goal: go to the blue ball", "a b c")]
    together = writer.write(prompts, 0.0, torch.Generator())
    for prompt, reply in zip(prompts, together, strict=True):
        assert writer.write([prompt], 0.0, torch.Generator()) == [reply]
        tokens = torch.tensor([[*prompt, *reply]])
        likeliest = model(tokens).argmax(-1)[0, len(prompt) - 1 : -1]
        assert likeliest.tolist() == reply
    drawn = [writer.write(prompts, 1.0, torch.Generator().manual_seed(1)) for _ in range(2)]
    assert drawn[0] == drawn[1] != together


def test_an_episode_is_judged_by_the_others_in_its_world() -> None:
    """Only differences within a world count; a world in which all ended alike teaches nothing."""
    from llm_worker.learn.grpo import advantages
    from llm_worker.learn.playing import Episode

    episodes = [Episode(1, 0.0), Episode(1, 1.0), Episode(2, 5.0), Episode(2, 5.0)]
    assert advantages(episodes, 2) == [-1.0, 1.0, 0.0, 0.0]


def test_learning_by_reward_makes_what_paid_likelier_and_continues(corpus: Path) -> None:
    """Replies of the better episode gain; a continued round is the undisturbed one, bit for bit."""
    pytest.importorskip("minigrid")
    from llm_worker.learn.grpo import GroupLearning, log_chances
    from llm_worker.model.corpus import read_tokenizer

    tokenizer = read_tokenizer(corpus)
    settings = GrpoSettings(env_id=ENV, groups=1, group_size=2, longest=2, learning_rate=1e-2)

    def begin() -> GroupLearning:
        return GroupLearning(settings, _imitation(corpus, 1).model, tokenizer)

    whole, first, second = begin(), begin(), begin()
    whole.advance()
    first.advance()
    second.restore(first.state())
    assert whole.advance() == second.advance()
    assert _same(whole.model, second.model)
    learned = begin()
    good, bad = (learned.writer.asked(text) for text in ("red", "blue"))
    from llm_worker.learn.playing import Episode, Moment

    reply = learned.writer.asked("x")
    episodes = [Episode(1, moments=[Moment(one, reply)]) for one in (good, bad)]

    def chance_of(asked: list[int]) -> float:
        with torch.no_grad():
            found = log_chances(learned.model, torch.tensor([[*asked, *reply]]))
        return float(found[:, -len(reply) :].sum())

    before = chance_of(good) - chance_of(bad)
    learned.learn(episodes, [1.0, -1.0])
    assert chance_of(good) - chance_of(bad) > before


def test_an_episode_counts_once_however_long_it_is(corpus: Path) -> None:
    """A long failure does not outweigh a short success."""
    from llm_worker.learn.grpo import GroupLearning
    from llm_worker.learn.playing import Episode, Moment
    from llm_worker.model.corpus import read_tokenizer

    settings = GrpoSettings(env_id=ENV, epochs=1, minibatches=1)
    learning = GroupLearning(settings, _imitation(corpus, 1).model, read_tokenizer(corpus))
    said = Moment(learning.writer.asked("red"), learning.writer.asked("x"))
    good, bad = Episode(1, moments=[said]), Episode(1, moments=[said] * 9)
    # Before the first update both are as likely as they were, so the loss is minus their worth.
    assert learning.learn([good, bad], [1.0, -1.0])["losses/policy"] == pytest.approx(0, abs=1e-5)


def test_memory_decides_nothing_about_what_is_learned(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that is computed in parts is the update that is computed at once."""
    from llm_worker.learn import grpo
    from llm_worker.learn.playing import Episode, Moment
    from llm_worker.model.corpus import read_tokenizer

    def learned(at_once: int) -> Any:
        monkeypatch.setattr(grpo, "_AT_ONCE", at_once)
        settings = GrpoSettings(env_id=ENV, minibatches=2)
        model = _imitation(corpus, 1).model
        learning = grpo.GroupLearning(settings, model, read_tokenizer(corpus))
        episodes = [
            Episode(1, moments=[Moment(learning.writer.asked(word), learning.writer.asked("x"))])
            for word in ("red", "blue", "green", "ball", "box", "key")
        ]
        learning.learn(episodes, [1.0, -1.0, 0.5, -0.5, 2.0, -2.0])
        return torch.cat([weights.flatten() for weights in model.parameters()])

    assert torch.allclose(learned(256), learned(2), atol=1e-5)


@pytest.mark.parametrize(
    ("algo", "given", "said"),
    [
        ("llm_bc", {"bot_episodes": 0}, "nothing to imitate"),
        ("llm_bc", {"width": 30}, "multiple of 8"),
        ("llm_bc", {"widht": 32}, "did you mean 'width'"),
        ("llm_grpo", {"group_size": 1}, "group_size"),
    ],
)
def test_a_training_that_makes_no_sense_is_refused(
    algo: str, given: dict[str, Any], said: str
) -> None:
    """Each problem is named before anything is learned."""
    with pytest.raises(SettingsError, match=said):
        from_config({"algo": algo, "extras": {"algo_params": given}})


def test_a_person_s_won_episodes_become_examples(tmp_path: Path) -> None:
    """A game is told in words by playing its actions again; a lost one teaches nothing."""
    from llm_worker.learn.sources import gather, told_again
    from llm_worker.play.world import World

    world = World("FrozenLake-v1", kwargs={"is_slippery": False})
    found = told_again(world, 1, [1, 1, 2, 2, 1, 2])
    assert [json.loads(one.reply)["action"] for one in found[:3]] == ["down", "down", "right"]
    assert len(found) == 6
    assert told_again(world, 1, [2, 1]) == []
    world.close()
    with pytest.raises(RecordError, match="recorded no telemetry"):
        gather(0, tmp_path, ENV)


# ---------------------------------------------------------------- whole trainings, under `prove`


def _config(tmp_path: Path, algo: str, given: dict[str, Any]) -> Path:
    path = tmp_path / f"{algo}.json"
    config = {"algo": algo, "env_id": ENV, "seed": 1, "extras": {"algo_params": given}}
    path.write_text(json.dumps(config))
    return path


def _learn(config: Path, run_dir: Path, kill_after: int = 0) -> None:
    """Train; with `kill_after`, kill the process once so many checkpoints were saved."""
    run_dir.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "llm_worker.cli", "--config", str(config)]
    process = subprocess.Popen(
        [*command, "--run-dir", str(run_dir)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    saved = 0
    for line in process.stdout:
        saved += '"checkpoint_saved"' in line
        if kill_after and saved == kill_after:
            time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.read()
    process.stdout.close()
    assert process.wait() == (-signal.SIGKILL if kill_after else 0)


def _digest(run_dir: Path) -> str:
    return hashlib.sha256((run_dir / "llm" / "model.gguf").read_bytes()).hexdigest()


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_killed_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    """`kill -9` in the middle of both trainings: the model is that of an undisturbed run."""
    pytest.importorskip("minigrid")
    bc = _config(tmp_path, "llm_bc", {**TINY, **QUICK, "updates": 12, "bot_episodes": 20})
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    _learn(bc, whole)
    _learn(bc, killed, kill_after=3)
    assert not (killed / "llm" / "model.gguf").exists()
    _learn(bc, killed)
    assert _digest(killed) == _digest(whole)
    # The shipped model, tried freely: it wins some episodes and loses others.
    given = {**QUICK, "updates": 4, "groups": 2, "group_size": 3, "longest": 8}
    grpo = _config(tmp_path, "llm_grpo", {**given, "temperature": 2.0})
    one, other = tmp_path / "one", tmp_path / "other"
    _learn(grpo, one)
    _learn(grpo, other, kill_after=2)
    _learn(grpo, other)
    assert _digest(other) == _digest(one)
    assert _digest(one) != hashlib.sha256((one / "llm" / "start.gguf").read_bytes()).hexdigest()


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_imitation_makes_the_model_better(tmp_path: Path) -> None:
    """Random weights solve nothing; after 500 small batches most unseen worlds are solved."""
    pytest.importorskip("minigrid")
    small = {"width": 64, "layers": 2, "heads": 4, "hidden": 128, "batch": 64}
    measured = {"eval_episodes": 40, "eval_steps": 24, "device": "cpu"}
    given = {**small, **measured, "updates": 500, "bot_episodes": 1000}
    _learn(_config(tmp_path, "llm_bc", given), tmp_path / "imitated")
    learned = json.loads((tmp_path / "imitated" / "llm" / "learned.json").read_text())
    assert learned["before"]["success"] == 0
    assert learned["after"]["success_low"] > 0.5


def test_the_defaults_are_the_recipe_of_the_shipped_model() -> None:
    """`llm_bc` without settings is how the shipped model was made."""
    recipe = Path(__file__).parents[2] / "workers/llm_worker/llm_worker/model/grid-player.json"
    made, settings = json.loads(recipe.read_text()), BcSettings()
    assert (settings.bot_episodes, settings.updates, settings.batch, settings.seed) == (
        made["episodes"],
        made["steps"],
        made["batch"],
        made["seed"],
    )
