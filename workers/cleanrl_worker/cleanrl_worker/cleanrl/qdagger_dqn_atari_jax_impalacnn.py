"""QDagger (Agarwal et al., 2022): a DQN student with an IMPALA network takes over, in JAX.

Three phases of one schedule: the teacher plays and fills a memory; the student learns offline
from that memory, by Q-learning and by imitating the teacher's preferences; then the student
plays itself, and imitation fades as its score approaches the teacher's.

The teacher is a trained DQN, or only a recording of an expert's play. A recording has no
preferences to imitate, only what was done: the student raises the likelihood of the recorded
actions, in the recorded states, also while it plays itself.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial

import numpy as np

from cleanrl_worker.agents.jax_layers import (
    Params,
    conv,
    convolve,
    dense,
    linear,
    max_pool,
    relu,
    scaled_pixels,
)
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.frame_replay import FrameReplayBuffer
from cleanrl_worker.kit.inference import Policy, greedy_policy
from cleanrl_worker.kit.jax_backend import (
    HOST,
    Array,
    Tree,
    arrays,
    jax,
    jnp,
    optax,
    start,
    trained,
)
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.schedules import linear_schedule
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.teacher import find_teacher, load_recording, load_teacher, teacher_memory

TEACHER = "dqn_atari_jax"
ALGORITHM = {
    "title": "QDagger: DQN with an IMPALA network, taught by a trained DQN, Atari, in JAX",
    "paper": "Agarwal et al. 2022, https://arxiv.org/abs/2206.01626",
    "family": "Q-learning",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "BreakoutNoFrameskip-v4",
    "requires": ["base", "atari", "jax"],
}
SMOKE = {
    "train_teacher_steps": 160,
    "teacher_steps": 100,
    "teacher_eval_episodes": 1,
    "offline_steps": 20,
    "total_timesteps": 240,
    "learning_starts": 130,
    "buffer_size": 400,
    "batch_size": 4,
}


@dataclass
class Args(RunArgs):
    exp_name: str = "qdagger_dqn_atari_jax_impalacnn"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "BreakoutNoFrameskip-v4"
    """the id of the environment"""
    total_timesteps: int = 11000000
    """total steps of all three phases: teacher-steps, offline-steps, the rest online [>=1]"""
    learning_rate: float = 1e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 1
    """the number of parallel environments [>=1]"""
    buffer_size: int = 1000000
    """the number of frames in each of the two replay memories [>=1]"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    tau: float = 1.0
    """how far the target network moves at an update; 1 copies (0,1]"""
    target_network_frequency: int = 1000
    """steps between two updates of the target network [>=1]"""
    batch_size: int = 32
    """the number of transitions in an update [>=1]"""
    start_e: float = 1.0
    """the probability of a random action when the student begins to play [0,1]"""
    end_e: float = 0.01
    """the probability of a random action at the end [0,1]"""
    exploration_fraction: float = 0.1
    """the share of total-timesteps in which exploration falls from start-e to end-e (0,1]"""
    learning_starts: int = 1080000
    """the step at which learning from the student's own play starts [>=0]"""
    train_frequency: int = 4
    """steps between two updates while the student plays [>=1]"""

    # QDagger specific arguments
    teacher_policy: str | None = None
    """the teacher: a .cleanrl_model file of dqn_atari_jax, or its run directory"""
    teacher_trajectories: str | None = None
    """in place of a teacher's policy: an .npz file of an expert's recorded play"""
    train_teacher_steps: int = 0
    """without a teacher, train one with dqn_atari_jax for so many steps first [>=0]"""
    teacher_eval_episodes: int = 10
    """games by which the teacher's score is judged [>=1]"""
    teacher_steps: int = 500000
    """steps that the teacher plays to fill its memory, ever less at random [>=1]"""
    offline_steps: int = 500000
    """updates of the student on the teacher's memory [>=1]"""
    temperature: float = 1.0
    """how sharply the teacher's preferences are imitated; smaller is sharper [>0]"""


def init_q_network(envs: AtariEnvs, key: Array) -> Params:
    """Parameters of the network from stacked frames to the value of each action."""
    trunk_key, head_key = jax.random.split(key)
    *keys, hidden_key = jax.random.split(trunk_key, 16)
    return {
        "trunk": {
            "sequences": [
                init_sequence(keys[:5], envs.single_observation_space.shape[0], 16),
                init_sequence(keys[5:10], 16, 32),
                init_sequence(keys[10:], 32, 32),
            ],
            "hidden": dense(hidden_key, 11 * 11 * 32, 256),
        },
        "head": dense(head_key, 256, int(envs.single_action_space.n)),
    }


def init_sequence(keys: list[Array], channels: int, outputs: int) -> Params:
    """Parameters of a convolution and two residual blocks of two convolutions each."""
    entry, *inner = keys
    first, second, third, fourth = (conv(key, 3, outputs, outputs) for key in inner)
    return {
        "entry": conv(entry, 3, channels, outputs),
        "blocks": [[first, second], [third, fourth]],
    }


def init_teacher(envs: AtariEnvs, key: Array) -> Params:
    """Parameters of the network of dqn_atari_jax, which the teacher was trained with."""
    trunk_key, head_key = jax.random.split(key)
    keys = jax.random.split(trunk_key, 4)
    convs = [
        conv(keys[0], 8, envs.single_observation_space.shape[0], 32),
        conv(keys[1], 4, 32, 64),
        conv(keys[2], 3, 64, 64),
    ]
    return {
        "trunk": {"convs": convs, "hidden": dense(keys[3], 7 * 7 * 64, 512)},
        "head": dense(head_key, 512, int(envs.single_action_space.n)),
    }


@jax.jit
def teacher_values(params: Params, obs: Array) -> Array:
    """The value of each action, as the teacher sees it."""
    first, second, third = params["trunk"]["convs"]
    maps = relu(convolve(first, scaled_pixels(obs), stride=4))
    maps = relu(convolve(second, maps, stride=2))
    maps = relu(convolve(third, maps, stride=1))
    hidden = relu(linear(params["trunk"]["hidden"], maps.reshape(len(maps), -1)))
    return linear(params["head"], hidden)


@jax.jit
def q_values(params: Params, obs: Array) -> Array:
    """The value of each action."""
    maps = scaled_pixels(obs)
    for sequence in params["trunk"]["sequences"]:
        maps = max_pool(convolve(sequence["entry"], maps, padding="SAME"))
        for first, second in sequence["blocks"]:
            change = convolve(first, relu(maps), padding="SAME")
            maps = maps + convolve(second, relu(change), padding="SAME")
    hidden = relu(linear(params["trunk"]["hidden"], relu(maps.reshape(len(maps), -1))))
    return linear(params["head"], hidden)


class Progress:
    """The scores that decide how much the student still imitates."""

    def __init__(self, teacher_return: float) -> None:
        self.teacher_return = teacher_return
        self.student_returns: deque[float] = deque(maxlen=10)

    def distill_coeff(self) -> float:
        """1 while the student is far behind, 0 once it has caught up."""
        if len(self.student_returns) < 10 or self.teacher_return == 0:
            return 1.0
        return max(1.0 - float(np.mean(self.student_returns)) / self.teacher_return, 0.0)

    def state_dict(self) -> dict:
        """Both sides' scores."""
        return {"teacher": self.teacher_return, "student": list(self.student_returns)}

    def load_state_dict(self, state: dict) -> None:
        """Put the scores back."""
        self.teacher_return = state["teacher"]
        self.student_returns = deque(state["student"], maxlen=10)


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> AtariEnvs:
    """Whole games with their true score."""
    return AtariEnvs(args.env_id, num_envs, learning=False, video_dir=video_dir)


def make_policy(envs: AtariEnvs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    params = jax.device_put(trained(partial(init_q_network, envs), model["q_network"]))
    return greedy_policy(lambda obs: np.asarray(q_values(params, obs)), epsilon=args.end_e)


def train(args: Args, run: Run) -> None:
    teacher_key, student_key = jax.random.split(start(args))
    envs = AtariEnvs(args.env_id, args.num_envs, video_dir=run.video_dir)
    run.check_spaces(envs)
    recorded = args.teacher_trajectories is not None
    teacher, progress = Tree(init_teacher(envs, teacher_key)), Progress(0.0)
    taught = teacher_memory(args, envs, HOST)
    if recorded and not run.resumed:
        # The recording is the first phase, played already
        progress.teacher_return = load_recording(args, envs, taught)
        run.step = args.teacher_steps
    elif not run.resumed:
        model, progress.teacher_return = load_teacher(
            find_teacher(args, run, TEACHER), args, TEACHER
        )
        teacher.load_state_dict(model["q_network"])
    adam = optax.adam(args.learning_rate)
    q_network = Tree(init_q_network(envs, student_key))
    # Targets come from a copy that lags behind, so that learning does not chase its own estimates
    target_network = Tree(q_network.value)
    optimizer = Tree(adam.init(q_network.value))
    # Steps in a row are much alike; batches are drawn from a memory that mixes many of them
    memory = FrameReplayBuffer(args.buffer_size, envs, HOST)

    def preferences(teacher_params: Params, data: dict) -> Array:
        """How likely the teacher takes each action; certain of what it was recorded to do."""
        if recorded:
            return jax.nn.one_hot(data["actions"].squeeze(1), int(envs.single_action_space.n))
        return jax.nn.softmax(teacher_values(teacher_params, data["obs"]) / args.temperature)

    @jax.jit
    def update(
        params: Params,
        target_params: Params,
        teacher_params: Params,
        moments: optax.OptState,
        data: dict,
        shown: dict | None,
        distill_coeff: float,
    ) -> tuple:
        """One step of Q-learning from `data` and of imitation there, or in `shown`."""
        target_max = q_values(target_params, data["next_obs"]).max(axis=1)
        td_target = data["rewards"] + args.gamma * target_max * (1 - data["dones"])
        teacher_pi = preferences(teacher_params, shown or data)

        def qdagger_loss(params: Params) -> tuple:
            student_values = q_values(params, data["obs"])
            old_value = jnp.take_along_axis(student_values, data["actions"], axis=1).squeeze(1)
            q_loss = jnp.square(old_value - td_target).mean()
            imitating = q_values(params, shown["obs"]) if shown else student_values
            student_log_pi = jax.nn.log_softmax(imitating / args.temperature)
            distill_loss = -(teacher_pi * student_log_pi).sum(axis=1).mean()
            loss = q_loss + distill_coeff * distill_loss
            losses = {
                "losses/loss": loss,
                "losses/td_loss": q_loss,
                "losses/distill_loss": distill_loss,
                "losses/q_values": old_value.mean(),
            }
            return loss, losses

        (_, losses), gradient = jax.value_and_grad(qdagger_loss, has_aux=True)(params)
        step, moments = adam.update(gradient, moments)
        return optax.apply_updates(params, step), moments, losses

    def learn(memory: FrameReplayBuffer) -> dict:
        data, shown = arrays(memory.sample(args.batch_size, run.rng)), None
        if recorded and memory is not taught:
            shown = arrays(taught.sample(args.batch_size, run.rng))
        q_network.value, optimizer.value, losses = update(
            q_network.value,
            target_network.value,
            teacher.value,
            optimizer.value,
            data,
            shown,
            progress.distill_coeff(),
        )
        return losses

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember(
        {"q_network": q_network},
        teacher=teacher,
        target_network=target_network,
        optimizer=optimizer,
        teacher_memory=taught,
        memory=memory,
        progress=progress,
        envs=envs,
    )
    obs = envs.obs
    online_from = args.teacher_steps + args.offline_steps
    # Each turn takes num_envs steps; the loop also ends when the run is told to stop
    for global_step in run.steps(args.num_envs):
        teaching, offline = global_step < args.teacher_steps, global_step < online_from
        if teaching or not offline:
            # Play: first the teacher, later the student, both at random less and less often
            if teaching:
                epsilon = linear_schedule(args.start_e, args.end_e, args.teacher_steps, global_step)
            else:
                duration = args.exploration_fraction * args.total_timesteps
                since = global_step - online_from
                epsilon = linear_schedule(args.start_e, args.end_e, duration, since)
            if run.rng.random() < epsilon:
                actions = envs.sample_actions(run.rng)
            elif teaching:
                actions = np.asarray(teacher_values(teacher.value, obs)).argmax(axis=1)
            else:
                actions = np.asarray(q_values(q_network.value, obs)).argmax(axis=1)
            next_obs, rewards, terminated, _, info = envs.step(actions)
            if info:
                scores = [score for score, _ in info["episodes"]]
                if teaching:
                    # The run's own curve is the student's: it begins when the student plays
                    run.log(global_step, {"charts/teacher/episodic_return": float(np.mean(scores))})
                else:
                    run.log_episodes(global_step, info)
                    progress.student_returns.extend(scores)
                run.log(global_step, {"charts/epsilon": epsilon})
            played = taught if teaching else memory
            played.add(obs, actions, rewards, terminated, info)
            obs = next_obs
            if teaching or global_step < args.learning_starts:
                continue

        # Learn: offline from what the teacher did, in every turn; later from the student's own play
        source = taught if offline else memory
        if source.ready and (offline or global_step % args.train_frequency < args.num_envs):
            losses = learn(source)
            if global_step % 100 < args.num_envs:
                numbers = {
                    **losses,
                    "charts/distill_coeff": progress.distill_coeff(),
                    "charts/teacher/avg_episodic_return": progress.teacher_return,
                }
                if offline:
                    numbers |= {
                        "charts/offline/loss": losses["losses/loss"],
                        "charts/offline/q_loss": losses["losses/td_loss"],
                        "charts/offline/distill_loss": losses["losses/distill_loss"],
                    }
                run.log(global_step, numbers)

        # The target network follows: target <- tau * network + (1 - tau) * target
        if global_step % args.target_network_frequency < args.num_envs:
            target_network.value = optax.incremental_update(
                q_network.value, target_network.value, args.tau
            )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
