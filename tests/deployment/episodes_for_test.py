"""Episodes and releases for tests."""

from collections.abc import Sequence

from upturn.config import CanarySettings
from upturn.deployment.canary import Canary
from upturn.deployment.episode import Episode
from upturn.records import Arm, Release


class Traffic:
    """Episodes with ids of their own."""

    def __init__(self, share: float = 0.5) -> None:
        self.share = share
        self._served = 0

    def arm(
        self, arm: Arm, results: str, *, violations: int = 0, hard_violations: int = 0, has_costs: bool = False
    ) -> list[Episode]:
        """One task an episode: ``+`` a success, ``-`` a failure, ``?`` missing. The rest goes to every episode."""
        episodes = []
        for result in results:
            self._served += 1
            episodes.append(
                Episode(
                    f"decision-{self._served}",
                    arm,
                    self.share,
                    successes=int(result == "+"),
                    missing=int(result == "?"),
                    violations=violations,
                    hard_violations=hard_violations,
                    has_costs=has_costs,
                )
            )
        return episodes

    def block(self, candidate: str, control: str) -> list[Episode]:
        """Both arms in turn, the longer one's rest at the end."""
        pair = self.arm("candidate", candidate), self.arm("control", control)
        length = max(map(len, pair))
        return [arm[index] for index in range(length) for arm in pair if index < len(arm)]


def release(stages: tuple[float, ...] = (0.5, 1.0), **changes: object) -> Release:
    """A release whose canary has just begun."""
    fields: dict[str, object] = {
        "id": "release-1",
        "agent": "a",
        "incumbent": "a@1",
        "candidate": "a@2",
        "stages": stages,
        "state": "canary",
        "stage": 0,
    }
    return Release(**{**fields, **changes})  # type: ignore[arg-type]


def run(start: Release, *blocks: Sequence[Episode], settings: CanarySettings | None = None) -> Release:
    """The release after the blocks."""
    canary = Canary(settings or CanarySettings())
    for block in blocks:
        start = canary.step(start, block)
    return start
