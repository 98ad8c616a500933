"""Metrics for MLflow, at MLFLOW_TRACKING_URI or in a database beside the runs."""

import dataclasses
import os
import time
from pathlib import Path

import filelock
import mlflow
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

import config

PROJECT = {{ project_name | tojson }}


class Tracker:
    """Rank 0's record of a run; it goes on where a restarted run continues."""

    def __init__(self, cfg: config.Config, folder: Path, step: int) -> None:
        beside = f"sqlite:///{folder.parent.absolute() / 'mlflow.db'}"
        path = folder / "mlflow_id"  # kept over restarts
        with filelock.FileLock(folder.parent / "mlflow.lock"):  # runs that start at one moment
            self.client = mlflow.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", beside))
            if step == 0 or not path.exists():
                path.write_text(self._create_run(folder.name, cfg))
        self.run_id = path.read_text()
        self.client.update_run(self.run_id, "RUNNING")  # which the start before has ended
        # Steps after the checkpoint come again, and MLflow would keep both values of each.
        names = self.client.get_run(self.run_id).data.metrics
        self.last = {name: self._last_step(name) for name in names}

    def log(self, step: int, row: dict[str, float]) -> None:
        """Record the values of a step that are not recorded yet."""
        now = int(time.time() * 1000)
        new = [name for name in row if step > self.last.get(name, -1)]
        values = [Metric(name, row[name], now, step) for name in new]
        try:
            self.client.log_batch(self.run_id, values)
        except MlflowException as error:  # metrics.jsonl has all, and the training goes on
            print(f"warning: MLflow has not recorded step {step}: {error}", flush=True)

    def finish(self) -> None:
        """Mark the run as ended."""
        self.client.set_terminated(self.run_id)

    def _last_step(self, name: str) -> int:
        return max(point.step for point in self.client.get_metric_history(self.run_id, name))

    def _create_run(self, name: str, cfg: config.Config) -> str:
        found = self.client.get_experiment_by_name(PROJECT)
        experiment = found.experiment_id if found else self.client.create_experiment(PROJECT)
        run_id = str(self.client.create_run(experiment, run_name=name).info.run_id)
        for section, values in dataclasses.asdict(cfg).items():
            for key, value in values.items():
                self.client.log_param(run_id, f"{section}.{key}", value)
        return run_id
