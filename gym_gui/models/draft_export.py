"""A draft as something to paste: a command, a program, a config. Secrets are left out."""

import json
import shlex
from dataclasses import replace

from gym_gui.models.form_grid import experiment_name, read_lines
from gym_gui.models.train_draft import TrainDraft
from mosaic.config.secrets import is_secret

_END = "MOSAIC_CONFIG"
_PLAIN = (bool, int, float, str, type(None))


def as_json(draft: TrainDraft) -> str:
    """The config of the first seed, for `mosaic submit FILE`."""
    return _config_text(draft, draft.seed)


def as_python(draft: TrainDraft, home: str = "") -> str:
    """A program on the SDK; `home` is named when it is not the one the SDK would find."""
    place = f"{home!r}, " if home else ""
    lines = ["import json", "", "from mosaic.client import TrainerClient", ""]
    lines.append(f"config = json.loads({_literal(as_json(draft))})")
    lines += ["", f"with TrainerClient.connect({place}start=True) as trainer:"]
    if draft.seeds > 1:
        lines.append(f"    for seed in range({draft.seed}, {draft.seed + draft.seeds}):")
        lines.append('        config["metadata"]["worker"]["config"]["seed"] = seed')
        if draft.run_name:
            lines.append(f'        config["run_name"] = {draft.run_name!r} + f"-s{{seed}}"')
        lines.append("        print(trainer.submit(config).run_id)")
    else:
        lines.append("    print(trainer.submit(config).run_id)")
    return "\n".join(lines) + "\n"


def as_experiment_file(draft: TrainDraft) -> str:
    """A TOML file for `mosaic experiment run FILE.toml`."""
    lines = [
        f"name = {json.dumps(experiment_name(draft))}",
        f"algorithms = {json.dumps([draft.algo, *draft.more_algos])}",
        f"environments = {json.dumps([draft.env_id, *draft.more_envs])}",
        f"seeds = {list(range(draft.seed, draft.seed + max(1, draft.seeds)))}",
    ]
    if draft.total_timesteps is not None:
        lines.append(f"total_timesteps = {draft.total_timesteps}")
    if draft.tags:
        lines.append(f"tags = {json.dumps(draft.tags)}")
    varied = [line.partition("=") for line in read_lines(draft.vary)]
    if varied:
        lines += ["", "[grid]"]
        for name, _, values in varied:
            lines.append(f"{name.strip()} = [{', '.join(map(_toml, values.split(',')))}]")
    if draft.params:
        lines += ["", "[settings]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in draft.params.items()]
    return "\n".join(lines) + "\n"


def _toml(value: str) -> str:
    """A value of the grid as TOML writes it: numbers and switches bare, words in quotes."""
    text = value.strip()
    if text in ("true", "false"):
        return text
    try:
        float(text)
    except ValueError:
        return json.dumps(text)
    return text


def as_command(draft: TrainDraft, home: str = "") -> str:
    """For a shell, one command a seed: `mosaic train` where its flags can say it all."""
    prefix = f"MOSAIC_HOME={shlex.quote(home)} " if home else ""
    if draft.several:
        return prefix + shlex.join(_experiment(draft))
    seeds = range(draft.seed, draft.seed + max(1, draft.seeds))
    if _flags_are_enough(draft):
        return "\n".join(prefix + shlex.join(_train(draft, seed)) for seed in seeds)
    return "\n".join(
        f"{prefix}mosaic submit /dev/stdin <<'{_END}'\n{_config_text(draft, seed)}\n{_END}"
        for seed in seeds
    )


def _flags_are_enough(draft: TrainDraft) -> bool:
    """Whether `mosaic train` would make the same run; it has no flags for the rest.

    Requirement sets need none: the worker finds out by itself what a run needs.
    """
    usual = TrainDraft()
    same = ("worker", "tensorboard", "keep_checkpoints", "fastlane_video_mode",
            "wandb_use_vpn_proxy", "curriculum_schedule", "other_extras")  # fmt: skip
    public = {key: text for key, text in draft.wandb.items() if text and not is_secret(key, text)}
    return (
        all(getattr(draft, name) == getattr(usual, name) for name in same)
        and not (draft.track_wandb and public)
        and all(isinstance(value, _PLAIN) for value in draft.params.values())
    )


def _train(draft: TrainDraft, seed: int) -> list[str]:
    words = ["mosaic", "train", draft.algo, "--env-id", draft.env_id, "--seed", str(seed)]
    if draft.total_timesteps is not None:
        words += ["--total-timesteps", str(draft.total_timesteps)]
    if draft.run_name:
        words += ["--name", draft.name_of(seed)]
    if draft.site:
        words += ["--site", draft.site]
    if draft.cpus != 1:
        words += ["--cpus", str(draft.cpus)]
    if draft.gpu:
        words += ["--gpus", "1", "--cuda"]
    if draft.wall_minutes is not None:
        words += ["--max-minutes", f"{draft.wall_minutes:g}"]
    if draft.track_wandb:
        words.append("--wandb")
    if draft.capture_video:
        words.append("--capture-video")
    for tag in draft.tags:
        words += ["--tag", tag]
    if draft.notes:
        words += ["--notes", draft.notes]
    for name, value in draft.params.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words.append(f"--{flag}={value}")
    # Several runs pasted at once should queue together, not each wait for the one before.
    return [*words, "--detach"] if draft.seeds > 1 else words


def _experiment(draft: TrainDraft) -> list[str]:
    name = experiment_name(draft)
    one = _train(replace(draft, run_name="", seeds=1, capture_video=False), draft.seed)
    words = ["mosaic", "experiment", "run", name, "--algo", draft.algo, *one[3:]]
    for flag, more in (("--algo", draft.more_algos), ("--env-id", draft.more_envs)):
        words += [word for value in more for word in (flag, value)]
    words += ["--seeds", str(max(1, draft.seeds))]
    return [*words, *(word for line in read_lines(draft.vary) for word in ("--param", line))]


def _config_text(draft: TrainDraft, seed: int) -> str:
    return json.dumps(_without_secrets(draft.config(seed).document()), indent=2)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{escaped}"""'


def _without_secrets(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_secrets(v) for k, v in value.items() if not is_secret(k, v)}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value
