"""Which site a run belongs to."""

from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.config.sites import LOCAL, read_site
from mosaic.trainer.core.states import Run
from mosaic.trainer.sites.interface import Site
from mosaic.trainer.sites.local import LocalSite


class Sites:
    """The sites of a home. A cluster's is made when the first run asks for it."""

    def __init__(self, home: Home, settings: Settings, local: LocalSite) -> None:
        self._home = home
        self._settings = settings
        self._by_engine: dict[str, Site] = {LOCAL: local}

    def of(self, run: Run) -> Site:
        """The site of a run."""
        engine = read_site(run.site).engine
        if engine not in self._by_engine:
            # Here, because most homes never need it.
            from mosaic.trainer.sites.slurm import SlurmSite

            self._by_engine[engine] = SlurmSite(self._home, self._settings)
        return self._by_engine[engine]

    def reap(self) -> None:
        """Let every site look after what it has started."""
        for site in self._by_engine.values():
            site.reap()

    async def close(self) -> None:
        """End the helpers of every site; runs continue."""
        for site in self._by_engine.values():
            await site.close()
