"""Weights & Biases, by its client: ``pip install 'upturn[wandb]'``.

``WANDB_API_KEY`` or ``wandb login`` give the key, ``WANDB_MODE=offline`` writes to the run's folder only. The
program's output is not captured.
"""

from collections.abc import Mapping
from uuid import uuid4

from upturn.errors import TrainingError
from upturn.training.runs.trackers.tracker import RunEnd, TrackedRun


class WandbTracker:
    """A run of W&B. Raises TrainingError without a key."""

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        self.id = run.id or uuid4().hex
        # without a key the client would ask for one at the terminal
        if wandb.setup().settings.mode == "online" and not wandb.login(prompt=False):
            raise TrainingError(
                "W&B has no API key; set WANDB_API_KEY, run `wandb login`, or set WANDB_MODE=offline"
            )
        self._run = wandb.init(
            id=self.id,
            project=run.project,
            name=run.name,
            dir=str(run.folder),
            config=dict(run.parameters),
            resume="allow" if run.id else None,
            settings=wandb.Settings(console="off", silent=True),
        )

    def log(self, units: int, values: Mapping[str, float]) -> None:
        """Sends the metrics, with the units as the step."""
        self._run.log(dict(values), step=units)

    def close(self, end: RunEnd) -> None:
        """Ends the run; W&B shows any end but ``finished`` as failed."""
        self._run.finish(exit_code=0 if end == "finished" else 1)
