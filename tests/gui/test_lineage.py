"""The lineage of a run: a tree, its curves on one axis, checkpoints to fork from."""

from gym_gui.tabs.lineage_tab import LineageTab

from .conftest import Driver


def test_a_run_shows_its_tree_and_where_it_can_be_forked(
    driver: Driver, trained: list[str]
) -> None:
    """The run is in its tree, its return is drawn, and a press on a mark chooses a checkpoint."""
    driver.connected()
    tab = LineageTab(driver.services)
    tab.set_run(driver.run(trained[0]))
    tab.activate()
    try:
        driver.until(lambda: tab.family is not None, "the tree")
        top = tab.tree.topLevelItem(0)
        assert top is not None
        assert top.toolTip(0) == trained[0]
        assert tab.family is not None
        steps = [item.step for item in tab.family.kept]
        assert [tab.steps.itemData(place) for place in range(tab.steps.count())] == steps
        assert tab.fork.isEnabled() == bool(steps)
        driver.until(lambda: tab.chart.lines, "its curve")
        for step in steps:
            assert tab.chart.marks.clicked is not None
            tab.chart.marks.clicked(step + 1)
            assert tab.steps.currentData() == step
    finally:
        tab.deactivate()
        tab.chart.close_chart()
        tab.deleteLater()
