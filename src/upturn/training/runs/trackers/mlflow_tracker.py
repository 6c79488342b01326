"""MLflow, by its client: ``pip install 'upturn[mlflow]'``.

``MLFLOW_TRACKING_URI`` is the address or file of the store; its other variables apply too. The project is MLflow's
experiment.
"""

import os
import re
import time
from collections.abc import Mapping

from upturn.training.runs.trackers.tracker import RunEnd, TrackedRun

_BATCH = 100
"""Most parameters in one request of MLflow's API."""
_LENGTH = 500
"""Most characters of a parameter in every store of MLflow."""
_STATES = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


class MlflowTracker:
    """A run of MLflow."""

    def __init__(self, run: TrackedRun) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # usage data for MLflow's makers; read at import
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._metric = Metric
        self._client = MlflowClient()
        if run.id is not None:
            self.id = run.id
            self._client.update_run(self.id, status="RUNNING")
            return
        experiment = self._client.get_experiment_by_name(run.project)
        owner = self._client.create_experiment(run.project) if experiment is None else experiment.experiment_id
        self.id = str(self._client.create_run(owner, run_name=run.name).info.run_id)
        parameters = [Param(_key(name), value[:_LENGTH]) for name, value in run.parameters.items()]
        for start in range(0, len(parameters), _BATCH):
            self._client.log_batch(self.id, params=parameters[start : start + _BATCH])

    def log(self, units: int, values: Mapping[str, float]) -> None:
        """Sends the metrics, with the units as the step."""
        now = int(time.time() * 1000)
        self._client.log_batch(
            self.id, [self._metric(_key(name), value, now, units) for name, value in values.items()]
        )

    def close(self, end: RunEnd) -> None:
        """Ends the run as finished, failed or killed."""
        self._client.set_terminated(self.id, _STATES[end])


def _key(name: str) -> str:
    """The name with underscores for the characters that MLflow refuses."""
    return re.sub(r"[^\w\-. /]", "_", name)
