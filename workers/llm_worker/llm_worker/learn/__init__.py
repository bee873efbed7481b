"""Trainings of the small model as runs: imitation (`llm_bc`) and play (`llm_grpo`)."""
