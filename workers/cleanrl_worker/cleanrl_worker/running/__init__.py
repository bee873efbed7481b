"""What a run does beside learning; no algorithm file imports it.

An algorithm file asks `kit.run.Run`, which asks these modules:

- the line to the worker, and what comes over it: `bridge`, `control`, `handover`;
- checkpoints and other files: `checkpointing` says when, `checkpoints` what, `checkpoint_files` and
  `checked_files` where; `state_digest` compares two of them, and `verification` checks that an
  algorithm file resumes exactly;
- numbers: `logger` passes them on, to `tensorboard`, `wandb_logging` and the worker;
- pictures: `live_frames`, `videos`, `atari_colour`;
- trained policies: `evaluation` plays them, `recording` keeps the episodes, `beside` has them
  judged while training continues, `presentation` uploads them;
- memory: `memory` keeps what an update frees for the next one;
- what a file says about itself: `schema` reads its literals and arguments, `parsing` its command
  line, `facts` names the environment's.

A change here cannot change what is learned: the hash of a learning record leaves this folder out
(`benchmarks/learning/fingerprint.py`).
"""
