"""The chapters, in their order. The first two are the ground for all others, which depend on nothing else."""

import package
import runbooks
import sandbox
import service
import trouble
from world import World  # noqa: F401  (for __main__)

GROUND = {
    "install": package.installs,
    "start": service.starts,
}
CHAPTERS = {
    "route": service.routes,
    "credentials": service.hands_credentials_over,
    "reload": service.reloads,
    "sweep": service.sweeps_by_a_timer,
    "sandbox": sandbox.holds,
    "stop": trouble.stops_while_sending,
    "watchdog": trouble.is_frozen,
    "configuration": trouble.is_configured_badly,
    "dependency": trouble.misses_a_dependency,
    "crashes": trouble.crashes_again_and_again,
    "upgrade": package.upgrades_while_routing,
    "runbooks": runbooks.does_what_they_say,
    "purge": package.is_purged,
}


def tell(world, only):
    for name, chapter in {**GROUND, **CHAPTERS}.items():
        if not only or name in only or name in GROUND:
            chapter(world)
