"""What algorithm files need and no paper describes: environments, memories, optimizers, speed.

What a run does beside learning (files, checkpoints, curves, evaluation) is in
`cleanrl_worker.running`, which algorithm files reach through `kit.run.Run` alone.

Writing an algorithm file
=========================

A file `cleanrl_worker/cleanrl/<name>.py` is one algorithm, read top to bottom: what it is,
its arguments, its network, its loop. It declares:

`ALGORITHM`
    A literal: `title`, `paper`, `family`, `actions` (`discrete`, `continuous`,
    `multi_discrete`), `observations` (`vector`, `grid`, `image`), `default_env`,
    `requires` (requirement sets: `base`, `atari`, `mujoco`, `envpool`, `procgen`,
    `jax`, `minigrid`, `pettingzoo`); `on_device` where the environments are compiled with the
    algorithm (`cleanrl_worker.ondevice`). Tools read it with `ast` (`running.schema`).
`SMOKE`
    A literal with the arguments of a run of a few seconds.
`Args`
    A dataclass on `kit.args.RunArgs`. Defaults are literals; every field is followed by its
    help text, which may end with the allowed range (grammar in `kit.args`).
`make_policy(envs, args, model)`
    Rebuilds the trained policy from the policy file's `model` (the `policy` states given
    to `run.remember`) and returns a `kit.inference.Policy`. `envs` has
    `single_observation_space` and `single_action_space`.
`make_eval_envs(args, num_envs, video_dir)`
    Only when evaluation needs other environments than `kit.envs.Envs` (Atari and the like).
`train(args, run)`
    The algorithm. The last two lines are `if __name__ == "__main__": main(Args, train)`.

The shape of `train`::

    envs = run.make_envs(args.num_envs)             # refuses spaces that do not fit
    network = Network(...).to(run.device)
    optimizer = Adam(network.parameters(), args.learning_rate)
    envs.reset(seed=args.seed)
    run.remember({"network": network}, optimizer=optimizer, envs=envs, memory=memory)
    obs = envs.obs                                  # after remember: --resume restores it
    for global_step in run.steps(stride):           # stride: environment steps in one turn
        ...
        obs, rewards, terminated, truncated, info = envs.step(actions)
        if info:                                    # an episode ended
            true_next_obs = info["final_obs"]       # bootstrap a truncated episode from this
            run.log_episodes(global_step, info)
        run.log(global_step, {"losses/td_loss": loss.item()})

Rules that make resume exact, to the last bit on the CPU:

- All that changes during the loop is in an object given to `run.remember` (anything with
  `state_dict` and `load_state_dict`), or follows from `global_step`. One turn of the
  loop leaves nothing behind in plain variables but what `envs.obs` and the objects give.
- All randomness comes from `run.rng` (NumPy) or torch's global generator.
- `run.steps` does everything else between two turns: commands and pauses (`running.control`),
  checkpoints (`running.checkpointing`), metrics (`running.logger`).

Speed stays out of sight; what has to be visible is one line with a comment that begins with
`speed:`. Small networks are a `kit.fused.Sequential`: torch's own, quicker, and given an array it
answers with an array, which is how an agent acts. Larger ones act through
`kit.inference.on_arrays`, recurrent ones through `kit.recurrent.Recurrent`. Rollouts are NumPy
arrays. Use `kit.optim.Adam`, and create it before anything else looks at the parameters' memory;
it has `clip_grad_norm_`. Write the update as a function of tensors, where the loop has come to
it, and decorate it with what `kit.acceleration.accelerator` gives; `Args` then derive from
`kit.args.TorchArgs`, which has `--compile` and `--cudagraphs`.

Environments follow Gymnasium's SAME_STEP autoreset: the observation that `step` returns
after the end of an episode already belongs to the next one. Wrap libraries that reset in the
next step (EnvPool) so that they behave like this.

JAX: take `jax`, `jnp` and `optax` from `kit.jax_backend` (a missing package becomes a
sentence), begin with its `start(args)`, and keep every pytree that changes in a `Tree`,
random keys too. Jit the whole update; hand it copies (`arrays`), because JAX reads its
arguments while the loop continues. Act with NumPy for small networks.

On the device: write `init(key)` and `iterate(args, state)` as pure functions of one pytree and
give them to `cleanrl_worker.ondevice.learner.Learner`, which runs them in chunks and does what a
loop over `run.steps` does. In `iterate` every argument that is a float is a traced value.

EnvPool: `kit.envpool` for loops, `kit.envpool_xla` inside compiled functions. EnvPool cannot
save a running environment: a resumed run repeats the first 50,000 steps at most, and begins
new episodes, with a note, when more were taken.

Refuse bad input with `kit.errors.UsageError` before `run.steps`; one sentence with the fix.
"""
