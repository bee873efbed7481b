"""Tags as people type them."""


def split_tags(text: str) -> list[str]:
    """Words with commas between, each once, in order."""
    return list(dict.fromkeys(word for part in text.split(",") if (word := part.strip())))
