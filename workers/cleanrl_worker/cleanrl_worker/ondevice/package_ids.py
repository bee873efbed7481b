"""Environments that other packages have written in JAX: their ids, and what each package needs.

Pure, and without JAX: the daemon and the lists of environments ask for names only. An id is the
package and its own name for the environment, such as `xminigrid/MiniGrid-Empty-8x8`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """One package.

    Attributes:
        module: Our module that adapts it; has `make(name)`.
        distribution: What is installed, as its metadata calls it.
        requirement_set: The set that `install_extras` installs it with.
        names: Its environments that one agent with one kind of action can act in.
        actions: The kind of their actions.
    """

    module: str
    distribution: str
    requirement_set: str
    names: tuple[str, ...]
    actions: str = "discrete"


_SIZES = ("5x5", "6x6", "8x8", "16x16")
PACKAGES = {
    "xminigrid": Package(
        "xminigrid_worlds",
        "xminigrid",
        "xminigrid",
        (
            *(f"MiniGrid-Empty-{size}" for size in _SIZES),
            *(f"MiniGrid-EmptyRandom-{size}" for size in _SIZES),
            *(f"MiniGrid-DoorKey-{size}" for size in _SIZES),
            *(f"MiniGrid-MemoryS{size}" for size in (8, 16, 32, 64, 128)),
            *("MiniGrid-BlockedUnlockPickUp", "MiniGrid-FourRooms", "MiniGrid-LockedRoom"),
            *("MiniGrid-Playground", "MiniGrid-Unlock"),
        ),
    ),
    "pgx": Package(
        "pgx_games",
        "pgx",
        "pgx",
        (
            *("minatar-asterix", "minatar-breakout", "minatar-freeway", "minatar-seaquest"),
            *("minatar-space_invaders", "2048", "tic_tac_toe", "connect_four", "othello", "hex"),
            *("animal_shogi", "gardner_chess", "go_9x9", "backgammon", "kuhn_poker"),
            "leduc_holdem",
        ),
    ),
    "jumanji": Package(
        "jumanji_puzzles",
        "jumanji",
        "jumanji",
        (
            *("Game2048-v1", "GraphColoring-v1", "Minesweeper-v0", "RubiksCube-v0"),
            *("RubiksCube-partly-scrambled-v0", "SlidingTilePuzzle-v0", "Sudoku-v0"),
            *("Sudoku-very-easy-v0", "BinPack-v2", "Knapsack-v1", "Tetris-v0", "CVRP-v1"),
            *("Maze-v0", "PacMan-v1", "Snake-v1", "TSP-v1"),
        ),
    ),
    "brax": Package(
        "brax_bodies",
        "brax",
        "brax",
        (
            *("ant", "halfcheetah", "hopper", "humanoid", "humanoidstandup"),
            *("inverted_pendulum", "inverted_double_pendulum", "pusher", "reacher", "swimmer"),
            "walker2d",
        ),
        "continuous",
    ),
    # Gymnasium's own; they need flax beside JAX.
    "phys2d": Package(
        "functional_envs", "flax", "gymnasium_jax", ("CartPole-v0", "CartPole-v1", "Pendulum-v0")
    ),
    "tabular": Package(
        "functional_envs", "flax", "gymnasium_jax", ("Blackjack-v0", "CliffWalking-v0")
    ),
}


def package_of(env_id: str) -> Package | None:
    """The package that an id belongs to; None for other ids."""
    prefix, slash, name = env_id.partition("/")
    package = PACKAGES.get(prefix) if slash else None
    return package if package is not None and name in package.names else None


def package_ids() -> Iterator[str]:
    """Every id, whether its package is installed or not."""
    for prefix, package in PACKAGES.items():
        yield from (f"{prefix}/{name}" for name in package.names)


def kinds_of(env_id: str) -> tuple[str, str]:
    """The kinds of actions and observations; all adapters give one row of numbers."""
    package = package_of(env_id)
    assert package is not None, env_id
    return ("continuous" if "Pendulum" in env_id else package.actions), "vector"
