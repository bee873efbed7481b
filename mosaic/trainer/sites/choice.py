"""Which site a run belongs to."""

from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.config.sites import LOCAL, RAY, SLURM, read_site
from mosaic.trainer.core.states import Run
from mosaic.trainer.sites.door import Door
from mosaic.trainer.sites.interface import Site
from mosaic.trainer.sites.local import LocalSite


class Sites:
    """The sites of a home. Any but this machine is made when the first run asks for it."""

    def __init__(self, home: Home, settings: Settings, local: LocalSite, door: Door) -> None:
        self._home = home
        self._settings = settings
        self._door = door
        self._made: dict[str, Site] = {LOCAL: local}

    def of(self, run: Run) -> Site:
        """The site of a run."""
        engine = read_site(run.site).engine
        # All partitions are one queue of SLURM; every other machine is a site of its own.
        name = engine if engine in (LOCAL, SLURM) else run.site
        if name not in self._made:
            self._made[name] = self._make(engine, name)
        return self._made[name]

    def _make(self, engine: str, name: str) -> Site:
        # Imported here, because most homes never need it.
        if engine == SLURM:
            from mosaic.trainer.sites.slurm import SlurmSite

            return SlurmSite(self._home, self._settings)
        if engine == RAY:
            from mosaic.trainer.sites.ray import RaySite

            return RaySite(name, self._home, self._settings, self._door)
        from mosaic.trainer.sites.ssh import SshSite

        return SshSite(name, self._home, self._settings, self._door)

    def reap(self) -> None:
        """Let every site look after what it has started."""
        for site in self._made.values():
            site.reap()

    async def close(self) -> None:
        """End the helpers of every site; runs continue."""
        for site in self._made.values():
            await site.close()
