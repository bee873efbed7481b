"""The trainings of the small model, by name."""

from llm_worker import TRAININGS

BC, GRPO = TRAININGS
