"""The flags of an algorithm as values; shared by `mosaic train`, `mosaic sweep` and experiments."""

from collections.abc import Sequence

from mosaic.client.training import TrainOptions, fresh_config
from mosaic.config.flags import BAD_VALUE, UNKNOWN_FLAG, flag_of, read_flags
from mosaic.config.model import Parameters
from mosaic.errors import InvalidConfigError, Problem
from mosaic.workers import parameters
from mosaic.workers.algorithms import Algorithm

__all__ = ["TrainOptions", "fresh_config", "judged_flags", "own_flags"]


def own_flags(words: Sequence[str], algorithm: Algorithm, typed: str) -> Parameters:
    """The algorithm's own flags as values.

    Raises:
        InvalidConfigError: With every flag that is unknown or does not fit.
    """
    values, problems = judged_flags(words, algorithm, typed)
    if problems:
        raise InvalidConfigError(problems)
    return values


def judged_flags(
    words: Sequence[str], algorithm: Algorithm, typed: str
) -> tuple[Parameters, list[Problem]]:
    """The algorithm's own flags as values, and every flag that is unknown or does not fit."""
    values, problems = read_flags(words, algorithm.kinds, typed)
    problems = [_with_help(problem, typed) for problem in problems]
    declared = {item["name"]: item for item in algorithm.arguments or ()}
    for name, value in values.items():
        sentence = parameters.misfit(declared[name], value, flag_of(name)) if declared else ""
        if sentence:
            problems.append(Problem("", BAD_VALUE, sentence))
    return parameters.absolute_paths(declared, values), problems


def _with_help(problem: Problem, typed: str) -> Problem:
    """A flag that resembles no other is answered with the list of all."""
    if problem.code != UNKNOWN_FLAG or "did you mean" in problem.message:
        return problem
    text = f"{problem.message}; `mosaic train {typed} --help` lists its flags"
    return Problem(problem.pointer, problem.code, text)
