"""Arguments that every algorithm file shares.

An algorithm file declares its own `Args` dataclass on top of `RunArgs`. Each field is
followed by a string literal; it is the field's help text everywhere (`--help`, the dry
run, the form in the window, the documentation). Tools read the files with `ast`, without
importing torch, so defaults are literals and bases are dataclasses of this module.

A help text may end with the allowed range in square or round brackets::

    "the discount factor [0,1]"          closed interval
    "the learning rate [>0]"             one bound: >, >=, < or <=
    "the fraction to explore (0,1]"      a round bracket leaves the bound out
    "the smallest return [<v_max]"       below another argument of the file
    "the policy to learn [a|b|c]"        one of these words

`parse_range` reads that hint.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
_INTERVAL = re.compile(rf"([\[(])\s*({_NUMBER})\s*,\s*({_NUMBER})\s*([\])])\s*$")
_ONE_BOUND = re.compile(rf"\[\s*(>=|<=|>|<)\s*({_NUMBER})\s*\]\s*$")
_ORDER = re.compile(r"\[\s*<\s*([a-z]\w*)\s*\]\s*$")
_CHOICES = re.compile(r"\[\s*([\w.-]+(?:\s*\|\s*[\w.-]+)+)\s*\]\s*$")


@dataclass(frozen=True)
class Range:
    """What a value may be: bounds for numbers, or a set of words.

    `below` names an argument that has to be greater; only both values together can tell.
    """

    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False
    choices: tuple[str, ...] = ()
    below: str | None = None

    def allows(self, value: object) -> bool:
        """Whether a value is in the range; `None` always is."""
        if value is None:
            return True
        if self.choices:
            return str(value) in self.choices
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return True
        above = self.low is None or (value > self.low if self.low_open else value >= self.low)
        below = self.high is None or (value < self.high if self.high_open else value <= self.high)
        return above and below

    def __str__(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.low is not None and self.high is not None:
            return (
                f"{'above' if self.low_open else 'at least'} {self.low:g} and "
                f"{'below' if self.high_open else 'at most'} {self.high:g}"
            )
        if self.low is not None:
            return f"{'above' if self.low_open else 'at least'} {self.low:g}"
        return f"{'below' if self.high_open else 'at most'} {self.high:g}"


def parse_range(help_text: str) -> Range | None:
    """Read the range hint at the end of a help text.

    Args:
        help_text: the string literal that follows a field.

    Returns:
        The range, or `None` when the text ends without a hint.
    """
    if match := _INTERVAL.search(help_text):
        left, low, high, right = match.groups()
        return Range(float(low), float(high), left == "(", right == ")")
    if match := _ONE_BOUND.search(help_text):
        sign, bound = match.group(1), float(match.group(2))
        if sign.startswith(">"):
            return Range(low=bound, low_open=sign == ">")
        return Range(high=bound, high_open=sign == "<")
    if match := _ORDER.search(help_text):
        return Range(below=match.group(1))
    if match := _CHOICES.search(help_text):
        return Range(choices=tuple(word.strip() for word in match.group(1).split("|")))
    return None


@dataclass
class RunArgs:
    """What every script accepts, whatever it learns."""

    exp_name: str = "experiment"
    """the name of this experiment"""
    seed: int = 1
    """seed of the experiment [>=0]"""
    torch_deterministic: bool = True
    """if toggled, torch uses deterministic algorithms only"""
    cuda: bool | None = None
    """if toggled, train on the GPU; neither asked for nor refused, on one that is found"""
    torch_threads: int = 1
    """threads for torch on the CPU; small networks are fastest with one [>=1]"""
    track: bool = False
    """if toggled, track the experiment with Weights and Biases"""
    wandb_project_name: str = "cleanRL"
    """the project's name in Weights and Biases"""
    wandb_entity: str | None = None
    """the entity (team) of the project in Weights and Biases"""
    capture_video: bool = False
    """if toggled, record videos of the first environment into the run directory"""
    save_model: bool = False
    """if toggled, write the final policy as <run-dir>/<exp-name>.cleanrl_model and evaluate it"""
    upload_model: bool = False
    """if toggled, upload the saved policy to the Hugging Face Hub; needs --save-model"""
    hf_entity: str | None = None
    """the user or organisation on the Hugging Face Hub; by default who is logged in"""
    run_dir: str | None = None
    """where the run's files go; by default runs/<env>__<exp>__<seed>__<time>"""
    tensorboard_dir: str | None = None
    """where the event files go; by default <run-dir>/tensorboard"""
    checkpoint_interval_s: float = 60.0
    """seconds between full-state checkpoints; 0 saves only at the end [>=0]"""
    keep_checkpoints: str = "last:3"
    """checkpoints to keep: last:K, every:N (saved at these steps too), best; commas between"""
    eval_every: int = 0
    """evaluate the policy beside training every so many steps; 0 for never [>=0]"""
    eval_episodes: int = 20
    """episodes of each such evaluation, on seeds that training never sees [>=1]"""
    eval_videos: bool = True
    """if toggled, film the best, median, worst and first episode of each such evaluation"""
    resume: str | None = None
    """continue from this full-state checkpoint, or from the newest valid one in this directory"""
    stop_at: int | None = None
    """save a checkpoint and end cleanly at this step of the longer schedule [>=1]"""
    smoke: bool = False
    """if toggled, take the short settings that the script declares for a quick proof"""


@dataclass
class TorchArgs(RunArgs):
    """What scripts accept whose steps `kit.acceleration` can make quicker."""

    compile: bool = False
    """if toggled, torch compiles the update first, which takes up to a minute"""
    cudagraphs: bool = False
    """if toggled, the update is replayed as a CUDA graph; needs --cuda"""


@dataclass
class DeviceArgs(RunArgs):
    """What scripts accept that are compiled together with their environments."""

    num_seeds: int = 1
    """how many seeds to train side by side: --seed, the next one, and so on [>=1]"""
    vmap_sweep: str = ""
    """settings to train side by side, all combinations, such as 'gamma=0.9,0.99 ent_coef=0,0.01'"""
