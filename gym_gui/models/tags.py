"""Moved; the train form still imports it from here."""

from gym_gui.models.formatting import split_tags

__all__ = ["split_tags"]
