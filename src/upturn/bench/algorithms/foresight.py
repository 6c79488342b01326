"""The world model on a toy: attempts are predictions of what the lamp shows.

It begins with a model that was taught what an observation looks like, a colour and an end, with colours drawn at
random: of which button shows which it knows nothing.
"""

from collections.abc import Sequence

import numpy as np

from upturn.bench.algorithms.contest import Contest
from upturn.bench.algorithms.meter import Meter, MeteredSampler
from upturn.bench.algorithms.player import LONGEST, Player
from upturn.bench.algorithms.toy import ASK, FIRST, SHOWN
from upturn.models.engine import LocalEngine
from upturn.records import Observation
from upturn.training.prediction import Predictor
from upturn.training.row import supervised_rows
from upturn.training.settings import OptimiserSettings, SftSettings
from upturn.training.sft import run_sft
from upturn.training.transition import Transition
from upturn.training.world_model import run_world_model
from upturn.training.world_model_settings import WorldModelSettings

_FORM = SftSettings(epochs=4, batch_rows=64, optimiser=OptimiserSettings(learning_rate=5e-3), decay="linear")
_FORMS = 1_024
_NO_LIMIT = 1 << 62


class TokenWords:
    """An ``ObservationWriter`` whose texts are token ids with spaces between."""

    beginning = (SHOWN,)
    stop_ids = (ASK,)

    def write(self, observation: Observation) -> tuple[int, ...]:
        """With the end."""
        return (*map(int, observation.text.split()), ASK)

    def read(self, token_ids: Sequence[int]) -> str | None:
        """None without an end."""
        return " ".join(map(str, token_ids[:-1])) if token_ids and token_ids[-1] == ASK else None


def teach_guessing(contest: Contest, player: Player) -> None:
    """Teaches to write any colour and an end."""
    rng = np.random.default_rng([contest.seed, 2])
    names = list(player.toy.openings)
    shown = [
        player.shown(
            names[int(rng.integers(len(names)))],
            [[int(rng.integers(FIRST, player.toy.vocabulary)), ASK]],
            place=place,
        )
        for place in range(_FORMS)
    ]
    run_sft(player.model, supervised_rows(shown), _FORM, seed=contest.seed, run_dir=contest.folder / "guessing")


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
        seed=contest.seed,
        run_dir=contest.folder / "run",
        evaluate=lambda _: player.worth(),
    )
    player.tokens += meter.tokens
