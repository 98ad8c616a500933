"""Metrics for MLflow, at MLFLOW_TRACKING_URI or in a database beside the runs.

A thread sends them, so that a server that does not answer holds up neither steps nor ends. What the
# {% if checkpoint %}
server lacks comes when it answers again, or with the next start of the run, from metrics.jsonl.
# {% else %}
server lacks comes when it answers again, before the end of the run; metrics.jsonl has all.
# {% endif %}
"""

import dataclasses
# {% if checkpoint %}
import json
# {% endif %}
import os
import threading
import time
from pathlib import Path

import filelock
import mlflow
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

import config

PROJECT = {{ project_name | tojson }}


class Tracker:
    """Rank 0's record of a run{{ '; it goes on where a restarted run continues' if checkpoint else '' }}."""

    # {% if checkpoint %}
    def __init__(self, cfg: config.Config, history: Path, step: int) -> None:
        self.cfg, self.folder = cfg, history.parent
    # {% else %}
    def __init__(self, cfg: config.Config, folder: Path) -> None:
        self.cfg, self.folder = cfg, folder
    # {% endif %}
        # {% if checkpoint %}
        self.id_file = self.folder / "mlflow_id"  # kept over restarts
        if step == 0:
            self.id_file.unlink(missing_ok=True)
        # {% else %}
        self.id_file = self.folder / "mlflow_id"
        # {% endif %}
        self.client: mlflow.MlflowClient | None = None
        self.status = "RUNNING"
        self.last: dict[str, int] = {}  # the newest step that the record has of each name
        # {% if checkpoint %}
        self.rows = _history(history)  # not in the record yet, or not known to be
        # {% else %}
        self.rows: list[tuple[int, dict[str, float]]] = []  # not in the record yet
        # {% endif %}
        self.news, self.ending = threading.Event(), threading.Event()
        self.news.set()
        self.thread = threading.Thread(target=self._record, daemon=True)
        self.thread.start()

    def log(self, step: int, row: dict[str, float]) -> None:
        """Have the values of a step recorded."""
        self.rows.append((step, row))
        self.news.set()

    def close(self, status: str) -> None:
        """Have the rest recorded and the run marked as ended, within a minute."""
        self.status = status
        self.ending.set()
        self.news.set()
        self.thread.join(60)
        if self.rows or self.thread.is_alive():
            # {% if checkpoint %}
            print("MLflow lacks the last rows: the next start of this run brings them", flush=True)
            # {% else %}
            print("MLflow lacks the last rows, which metrics.jsonl has", flush=True)
            # {% endif %}

    def _record(self) -> None:
        """Send rows until the run ends. After a failure the thread waits, and tries again."""
        ended = told = False
        while not ended:
            self.news.wait()
            self.news.clear()
            ended = self.ending.is_set()
            try:
                client = self.client = self.client or self._open()
                self._send(client)
                if ended:
                    client.set_terminated(self.id_file.read_text(), self.status)
                told = False
            except (MlflowException, OSError) as error:
                if not told:
                    print(f"warning: MLflow records later: {error}", flush=True)
                told = True
                self.ending.wait(60)

    def _send(self, client: mlflow.MlflowClient) -> None:
        """Send all rows that are there, but no step again: MLflow would keep both values."""
        rows, now = list(self.rows), int(time.time() * 1000)
        values = [Metric(name, row[name], now, step) for step, row in rows for name in row]
        new = [value for value in values if value.step > self.last.get(value.key, -1)]
        for place in range(0, len(new), 1000):  # the most that a request may hold
            client.log_batch(self.id_file.read_text(), new[place : place + 1000])
            self.last |= {value.key: value.step for value in new[place : place + 1000]}
        del self.rows[: len(rows)]

    def _open(self) -> mlflow.MlflowClient:
        # {% if checkpoint %}
        """Find or make the run, which the start before has ended, and see which steps are there."""
        # {% else %}
        """Make the run, unless it was made before the server failed; see which steps are there."""
        # {% endif %}
        beside = f"sqlite:///{self.folder.parent.absolute() / 'mlflow.db'}"
        with filelock.FileLock(self.folder.parent / "mlflow.lock"):  # runs that start at one moment
            client = mlflow.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", beside))
            if not self.id_file.exists():
                self._create_run(client)
        run_id = self.id_file.read_text()
        client.update_run(run_id, "RUNNING")
        for name in client.get_run(run_id).data.metrics:
            points = client.get_metric_history(run_id, name)
            self.last[name] = max(point.step for point in points)
        return client

    def _create_run(self, client: mlflow.MlflowClient) -> None:
        found = client.get_experiment_by_name(PROJECT)
        experiment = found.experiment_id if found else client.create_experiment(PROJECT)
        run_id = str(client.create_run(experiment, run_name=self.folder.name).info.run_id)
        self.id_file.write_text(run_id)
        for section, values in dataclasses.asdict(self.cfg).items():
            for key, value in values.items():
                client.log_param(run_id, f"{section}.{key}", value)
# {% if checkpoint %}


def _history(path: Path) -> list[tuple[int, dict[str, float]]]:
    """The steps and values that the starts before have written."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(row.pop("step"), row) for row in map(json.loads, lines)]
# {% endif %}
