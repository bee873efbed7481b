"""What follows training with `--save-model`: an evaluation, and an upload with `--upload-model`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.errors import CheckpointError, UsageError

EPISODES = 10
# Of Atari half an hour of play; a policy that never loses must not keep the run from its end.
_MOST_STEPS = 27_000
_LIBRARY = "huggingface_hub"


def refuse_upload_in_vain(args: RunArgs) -> None:
    """Say before training, not after it, that a policy could not be uploaded.

    Raises:
        UsageError: There is nothing to upload, or nothing to upload it with.
    """
    if not args.upload_model:
        return
    if not args.save_model:
        raise UsageError("--upload-model uploads what --save-model saves: add --save-model.")
    if importlib.util.find_spec(_LIBRARY) is None:
        raise UsageError(
            f"--upload-model needs the package {_LIBRARY}, which is not installed: install it with "
            f"pip install {_LIBRARY} and log in with hf auth login, or leave --upload-model "
            "out; the policy is saved all the same."
        )


def evaluate_saved(
    policy: Path, between_steps: Callable[[], None], tell: Callable[[str], None]
) -> list[float]:
    """Play a few episodes with a saved policy.

    Args:
        policy: The file that `--save-model` wrote.
        between_steps: Called between two steps; may raise to end the evaluation.
        tell: Says a sentence to the user.

    Returns:
        The returns of the episodes; none for an algorithm that is not bundled.
    """
    # Here, not above: evaluation is slow to import, and only this needs it.
    from cleanrl_worker.running.evaluation import evaluate

    try:
        episodes = evaluate(
            policy, episodes=EPISODES, max_steps=_MOST_STEPS, between_steps=between_steps
        )
    except (CheckpointError, UsageError) as error:
        tell(f"the saved policy could not be evaluated: {error}")
        return []
    returns = [episode.episodic_return for episode in episodes]
    tell(f"the saved policy reaches {np.mean(returns):.2f} on average over {EPISODES} episodes")
    return returns


def upload(policy: Path, args: RunArgs, env_id: str, returns: Sequence[float]) -> str:
    """Upload a saved policy to the Hugging Face Hub, under CleanRL's name for it.

    Returns:
        A sentence that says where it is, or why it is not there; the run has succeeded either way.
    """
    hub = importlib.import_module(_LIBRARY)
    name = f"{env_id.replace('/', '_')}-{args.exp_name}-seed{args.seed}"
    try:
        api = hub.HfApi()
        repository = f"{args.hf_entity or api.whoami()['name']}/{name}"
        address = api.create_repo(repository, exist_ok=True)
        card = _card(name, env_id, args, returns).encode()
        for path, content in (("README.md", card), (policy.name, policy.read_bytes())):
            api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id=repository)
    except Exception as error:
        # The library raises errors of several other libraries; none may cost a finished run.
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        return f"the policy was not uploaded ({reason}); it is in {policy}"
    return f"the policy was uploaded to {address}"


def _card(name: str, env_id: str, args: RunArgs, returns: Sequence[float]) -> str:
    reached = f"{np.mean(returns):.2f} +/- {np.std(returns):.2f}" if returns else "not evaluated"
    return (
        "---\ntags:\n- reinforcement-learning\n- custom-implementation\n"
        f"- {env_id}\nlibrary_name: cleanrl\n---\n\n# {name}\n\n"
        f"Trained by `{args.exp_name}` on `{env_id}` with seed {args.seed}.\n\n"
        f"Mean return of {len(returns)} episodes: {reached}.\n"
    )
