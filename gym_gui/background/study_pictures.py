"""Optuna's figures for the window, drawn off the GUI thread by a process of their own."""

from collections.abc import Callable, Mapping, Sequence

from gym_gui.background.calls import Call, Calls, Failed
from gym_gui.widgets.study_view import Picture
from mosaic.system.stoppable import Stoppable


def draw_pictures(
    calls: Calls,
    name: str,
    trials: Sequence[Mapping[str, object]],
    done: Callable[[list[Picture]], object],
    failed: Failed,
) -> Call:
    """Draw the figures that a study has enough completed trials for.

    It takes seconds, on a busy machine minutes. So the process is ended when its pictures are no
    longer wanted: with the window, or when the call is cancelled.
    """
    program = Stoppable()

    def draw() -> list[Picture]:
        # Here: a window that shows no study needs nothing of this.
        from mosaic.reports.study_figures import draw_study

        # The short name of its kind: there is little room for five titles side by side.
        return [
            Picture(figure.kind.capitalize(), figure.caption, figure.png)
            for figure in draw_study(name, trials, program)
        ]

    return calls.run(draw, done, failed, program.stop)
