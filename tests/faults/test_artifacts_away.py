"""The folder of the artifacts cannot be reached: everybody goes on with what they have, and a new host waits for it."""

import pytest

from tests.faults.conftest import Site, Trial, kill

MISSED = "no artifact is in force for model 'digits'; "
"""What a host says that finds none."""

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_the_artifacts_are_away_while_a_host_starts_anew(site: Site, trial: Trial):
    artifacts, away = site.folder / "var/artifacts", site.folder / "var/elsewhere"

    def fault(load):
        artifacts.rename(away)
        try:
            kill(site.replicas("host-digits")[0])
            site.wait_until(lambda: MISSED in site.said())
            load.wait_for(200)  # it has looked for its artifact, and is not asked as long as it has none
        finally:
            away.rename(artifacts)

    load, _ = trial(site, fault)
    assert not load.troubles
    site.wait_until_whole()
