"""One chart for each value of a key: which keys set runs apart, and what each run has."""

from collections.abc import Mapping

from mosaic.curves.names import tag_order
from mosaic.statistics.grouping import Asked

ENVIRONMENT, ALGORITHM = "environment", "algorithm"
_MARK = "  ·  "
# A setting whose values are all different makes as many charts as there are runs.
_MOST_VALUES = 8


def facet_keys(asked: Mapping[str, Asked]) -> list[str]:
    """The keys in which these runs differ, each with few enough values for a row of charts."""
    settings = {name for one in asked.values() for name in one.settings}
    keys = [ENVIRONMENT, ALGORITHM, *sorted(settings)]
    return [key for key in keys if 1 < len(_values(asked, key)) <= _MOST_VALUES]


def facet_of(one: Asked, key: str) -> str:
    """What a run has of a key, as the title of its chart."""
    if key == ENVIRONMENT:
        return one.env_id
    if key == ALGORITHM:
        return one.algo
    return f"{key}={one.settings.get(key, 'default')}"


def facet_tag(tag: str, facet: str) -> str:
    """The name of a chart that shows one curve of some of the runs."""
    return f"{tag}{_MARK}{facet}" if facet else tag


def split_facet(tag: str) -> tuple[str, str]:
    """The curve of a chart and whose it is; the inverse of `facet_tag`."""
    curve, _, facet = tag.partition(_MARK)
    return curve, facet


def chart_order(tag: str) -> tuple[int, str, str]:
    """A sort key for charts: as their curves, and the facets of a curve beside each other."""
    curve, facet = split_facet(tag)
    return (*tag_order(curve), facet)


def _values(asked: Mapping[str, Asked], key: str) -> set[str]:
    return {facet_of(one, key) for one in asked.values()}
