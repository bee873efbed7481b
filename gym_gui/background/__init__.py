"""Everything that may take time: calls, streams, frames, child processes. Never the GUI thread.

- Reaching a daemon: `daemon_link`, `daemons`; work in threads: `calls`; long streams: `streams`.
- Reading a run through its daemon: `run_reading`, `run_settings`, `run_phases`, `file_watch`,
  `log_reading`, `evaluation_reading`, `arena_reading`, `recordings`; curves: `metric_feed`,
  `joined_feeds`; copies for programs that need a file: `run_cache`.
- Pictures of a run at work: `frames`, `frame_source`, `remote_frames`; a game: `play_link`.
- Programs that the window starts: `commands`, `env_probe`, `extras_install`, `study_pictures`,
  `sweep_driver`, `wandb_send`, and `tensorboard` with `private_tensorboard` and
  `tensorboard_board`; `dies_with_parent` ties one to the window.
- Asking others: workers by `worker_hooks`, W&B's server by `wandb_probe`.
- The window's own files: `storage`; what explains a run to others: `support_bundle`.
"""
