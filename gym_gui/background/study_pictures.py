"""Optuna's figures for the window, drawn off the GUI thread by a process of their own."""

from collections.abc import Mapping, Sequence

from gym_gui.widgets.study_view import Picture


def draw_pictures(name: str, trials: Sequence[Mapping[str, object]]) -> list[Picture]:
    """The figures that a study has enough completed trials for. May block.

    Raises:
        MosaicError: A package is missing.
    """
    # Here: a window that shows no study needs nothing of this.
    from mosaic.reports.study_figures import draw_study

    # The short name of its kind: there is little room for five titles side by side.
    return [
        Picture(figure.kind.capitalize(), figure.caption, figure.png)
        for figure in draw_study(name, trials)
    ]
