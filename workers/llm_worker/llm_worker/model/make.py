"""Make the small model: examples from the bot and from recorded play, training, a GGUF file.

`python -m llm_worker.model.make FILE.gguf`; the recipe is written beside it as FILE.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from llm_worker.errors import LlmError
from llm_worker.model.examples import Example, examples
from llm_worker.model.recorded import from_recorded

# The examples are the same for every training: `--seed` is about the weights alone.
EXAMPLES_SEED = 0


def main() -> int:
    """Make the model from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--episodes", type=int, default=26_000)
    parser.add_argument("--steps", type=int, default=6_860)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="")
    parser.add_argument("--recorded", type=Path, action="append", default=[])
    options = parser.parse_args()
    try:
        import gguf  # noqa: F401  (asked for before an hour of training, not after it)
        import torch
    except ImportError as error:
        print(f"{error.name} is missing; run: make setup-llm", file=sys.stderr)
        return 1
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        recorded = [example for path in options.recorded for example in from_recorded(path)]
    except LlmError as error:
        print(error, file=sys.stderr)
        return 1
    sizes = options.episodes, options.steps, options.batch
    make(options.file, *sizes, options.seed, device, recorded)
    return 0


def make(
    file: Path,
    episodes: int,
    steps: int,
    batch: int,
    seed: int,
    device: str,
    recorded: Sequence[Example] = (),
) -> None:
    """Train a model on the bot's decisions and on `recorded` ones, and write it with its recipe."""
    import torch

    from llm_worker.model import train
    from llm_worker.model.corpus import write_corpus
    from llm_worker.model.export import export

    def report(line: str) -> None:
        print(line, flush=True)

    # Each once: what the bot would do too is no reason to learn it twice.
    found = list(dict.fromkeys([*examples(episodes, EXAMPLES_SEED), *recorded]))
    report(f"{len(found)} examples from {episodes} episodes and {len(recorded)} recorded steps")
    with tempfile.TemporaryDirectory(prefix="mosaic-make-model-") as folder:
        data, weights = Path(folder) / "examples.npz", Path(folder) / "weights.npz"
        tokenizer = write_corpus(found, data)
        corpus = train.Corpus.load(data, torch.device(device))
        shape = train.Shape(corpus.vocabulary)
        model = train.train(corpus, shape, steps, batch, train.RATE, seed, report)
        train.save(model, weights)
        export(weights, tokenizer, shape.heads, file)
    recipe = {
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "episodes": episodes,
        "examples": len(found),
        "recorded_steps": len(recorded),
        "examples_seed": EXAMPLES_SEED,
        "steps": steps,
        "batch": batch,
        "seed": seed,
        "device": device,
        "torch": torch.__version__,
    }
    file.with_suffix(".json").write_text(json.dumps(recipe, indent=2) + "\n")
    report(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
