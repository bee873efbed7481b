"""Recognising a credential by what it is, not only by the name it is kept under.

Nothing here stores or replaces anything: `mosaic.config.secrets` and `mosaic.config.redaction`
decide what follows from a finding.
"""

import math
import re
from collections import Counter
from urllib.parse import unquote

HIDDEN = "[removed]"

# `scheme://user:password@host`. A password that was taken out, or is only a placeholder, is none.
_ADDRESS = re.compile(
    r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>]{0,200}:)"
    r"(?!\[removed\]@|\*+@|\$\{)(?P<password>[^\s/@\"'<>]{1,500})(?=@)",
    re.IGNORECASE,
)
# Formats that their issuers made recognisable on purpose. The look-behind keeps a word that only
# ends like a prefix (`task-…`) from being taken for one.
_FORMATS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{50,255}"  # GitHub
    r"|glpat-[A-Za-z0-9_-]{20,100}"  # GitLab
    r"|sk-(?=[A-Za-z0-9_-]{0,200}[0-9])[A-Za-z0-9_-]{20,200}"  # OpenAI, Anthropic
    r"|hf_[A-Za-z0-9]{30,100}"  # Hugging Face
    r"|wandb_v[0-9]_[A-Za-z0-9_]{20,200}"  # Weights & Biases
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,200}"  # Slack
    r"|AIza[A-Za-z0-9_-]{35}"  # Google
    r"|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,300}"
    r"|eyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,2000}"  # JWT
    r")"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.{0,20000}?(?:-----END [A-Z ]{0,40}-----|\Z)",
    re.DOTALL,
)
# What every finding of the patterns above holds, in lower case: a quick look for large files.
MARKERS = (
    b"://", b"akia", b"asia", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_",
    b"glpat-", b"sk-", b"hf_", b"wandb_v", b"xox", b"aiza", b"npm_", b"pypi-", b"eyj",
    b"private key-----",
)  # fmt: skip

# Beside these names a value that looks random is a credential.
_TELLING_NAME = re.compile(
    r"(^|[-_.])(key|pass|pwd|auth|dsn|creds?|cookie|signature|pat)$|pwd$|[a-z]Key$", re.IGNORECASE
)
_FOLDER_NAMES = frozenset({"pwd", "oldpwd"})
_SHORTEST_RANDOM, _RANDOM_BITS = 20, 3.5


def tells_of_credential(name: str) -> bool:
    """Whether a name such as `OPENAI_KEY`, `DB_PASS` or `MYSQL_PWD` is one of a credential."""
    return name.lower() not in _FOLDER_NAMES and bool(_TELLING_NAME.search(name))


def holds_credential(text: str, name: str = "") -> str:
    """What kind of credential a text holds, in words; empty when it holds none.

    Args:
        text: A value of a configuration.
        name: The key it is kept under; beside a telling name random text counts too.
    """
    # In the order of certainty: the first three are recognised by their form alone.
    if _ADDRESS.search(text):
        return "a password in an address"
    if _FORMATS.search(text):
        return "an access key"
    if _PRIVATE_KEY.search(text):
        return "a private key"
    if name and tells_of_credential(name) and _looks_random(text):
        return "a key"
    return ""


def hide_credentials(text: str) -> str:
    """A text with every credential that can be recognised by itself taken out."""
    text = _ADDRESS.sub(lambda match: match["before"] + HIDDEN, text)
    return _PRIVATE_KEY.sub(HIDDEN, _FORMATS.sub(HIDDEN, text))


def forms_of(secret: str) -> set[str]:
    """The ways in which a secret may be written down: whole, and the password of an address."""
    passwords = {match["password"] for match in _ADDRESS.finditer(secret)}
    return {secret, *passwords, *map(unquote, passwords)}


def _looks_random(text: str) -> bool:
    """Long, of letters and digits, without the repetitions of words; neither a path nor a text."""
    if len(text) < _SHORTEST_RANDOM or re.search(r"[\s/\\]", text):
        return False
    mixed = re.search(r"[0-9]", text) and re.search(r"[A-Za-z]", text)
    return bool(mixed) and _bits_per_character(text) >= _RANDOM_BITS


def _bits_per_character(text: str) -> float:
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)
