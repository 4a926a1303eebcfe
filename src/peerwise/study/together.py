"""Jobs whose networks many devices share, of one process or of several on many machines.

Process 0 decides what is run, keeps it and says so; the others follow and keep nothing. Where one
fails, all leave the job.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from peerwise.errors import BadSetting
from peerwise.processes import Elsewhere, first_says, meet
from peerwise.simulate.parts import check_count, check_cut
from peerwise.study.engine import checkpoint_of, work
from peerwise.study.jobs import Arrays, Job, Run
from peerwise.study.provenance import depends
from peerwise.study.store import Store


class Shared(NamedTuple):
    """A job that all processes do together."""

    job: Run

    @property
    def key(self) -> str:
        """The job's."""
        return self.job.key

    @property
    def asked(self) -> Any:
        """The job's."""
        return self.job.asked

    @property
    def batch(self) -> str:
        """The job's."""
        return self.job.batch

    def run(self, checkpoint: Path) -> Arrays:
        """Run the job; a mistake in one process is an error in all."""
        try:
            arrays = self.job.run(checkpoint)
        except Elsewhere:
            raise
        except Exception as error:
            with suppress(Elsewhere):
                meet(failure=str(error) or type(error).__name__)
            raise
        meet()
        return arrays


def parts_of(mesh: Any) -> int:
    """How many devices share a network."""
    return int(mesh.devices.size)


class OneNetwork(NamedTuple):
    """The devices of a mesh, all of them for one job after the other."""

    mesh: Any
    cut: str = "auto"

    def check(self, jobs: Iterable[Run]) -> None:
        """Refuse jobs that these devices cannot share, before any of them runs."""
        check_cut(self.cut)
        for job in jobs:
            if job.cell.method.traits.place != "pooled":
                check_count(parts_of(self.mesh), job.cell["split"]["nodes"])

    def run(self, jobs: Sequence[Job], folder: Path, report: Callable[[], None]) -> dict[str, str]:
        """Run jobs, with all processes; called in process 0."""
        failures: dict[str, str] = {}
        for job in jobs:
            first_says(job.key)
            failures |= work(folder, [self._shared(job)])
            report()
        first_says("")
        return failures

    def follow(self, jobs: Iterable[Job], folder: Path) -> None:
        """Help process 0 with those of the jobs that it runs."""
        known = {job.key: job for job in jobs}
        while key := first_says(""):
            job = self._shared(known[key])
            about = {"asked": job.asked, "depends": depends(job)}
            with suppress(Exception):  # process 0 says what went wrong
                job.run(checkpoint_of(Store(folder).loose, job, about))

    def _shared(self, job: Job) -> Shared:
        if not isinstance(job, Run):
            raise BadSetting("devices can share only a network that a run file describes")
        return Shared(job._replace(mesh=self.mesh, cut=self.cut))
