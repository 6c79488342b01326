"""The world model on a toy: attempts are predictions of what the lamp shows.

It begins with a model that was taught what an observation looks like, a colour and an end, by a lamp that is out of
order seven times in ten and then shows any colour: of which button shows which it knows little.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.algorithms.token_budget import Meter, MeteredSampler
from benchmarks.algorithms.toy import ASK, FIRST, SHOWN
from benchmarks.algorithms.toy_policy import LONGEST, Player
from benchmarks.algorithms.toy_training import Contest
from upturn.models.engine import LocalEngine
from upturn.records import Observation
from upturn.training import supervised_rows
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.algorithms.world_model import Predictor, WorldModelSettings, run_world_model
from upturn.training.data import Transition
from upturn.training.runs import RunOptions

_FORMS = 1_024
_IN_ORDER = 0.3
"""Share of what it is taught that is right."""
_NO_LIMIT = 1 << 62


class TokenWords:
    """An ``ObservationWriter`` whose texts are token ids with spaces between."""

    prefix = (SHOWN,)
    stop_ids = (ASK,)

    def write(self, observation: Observation) -> tuple[int, ...]:
        """With the end."""
        return (*map(int, observation.text.split()), ASK)

    def read(self, token_ids: Sequence[int]) -> str | None:
        """None without an end."""
        return " ".join(map(str, token_ids[:-1])) if token_ids and token_ids[-1] == ASK else None


def teach_guessing(contest: Contest, player: Player, settings: SftSettings) -> None:
    """Teaches to write a colour and an end."""
    toy, rng = player.toy, np.random.default_rng([contest.seed, 2])
    names = list(toy.openings)
    shown = []
    for place in range(_FORMS):
        name = names[int(rng.integers(len(names)))]
        is_right, other = rng.random() < _IN_ORDER, int(rng.integers(FIRST, toy.vocabulary))
        shown.append(player.shown(name, toy.best(name).written if is_right else [[other, ASK]], place=place))
    run_sft(player.model, supervised_rows(shown), settings, RunOptions(contest.seed, contest.folder / "guessing"))


def learn_world_model(contest: Contest, player: Player, settings: WorldModelSettings) -> None:
    """From each button once, with what the lamp showed."""
    transitions = [
        Transition(f"{name}/0", name, "lamp.press", opening, written, " ".join(map(str, written[:-1])))
        for name, opening in player.toy.openings.items()
        for (written,) in [player.toy.best(name).written]
    ]
    meter = Meter(_NO_LIMIT)
    engine = LocalEngine(player.model, slots=64, max_length=LONGEST)
    run_world_model(
        player.model,
        Predictor(MeteredSampler(engine, meter), TokenWords()),
        transitions,
        settings,
        RunOptions(contest.seed, contest.folder / "run", evaluate=lambda _: player.worth()),
    )
    player.tokens += meter.tokens
