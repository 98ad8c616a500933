"""The manifests against the published models: types, required and unknown fields, dangling names.

No API server runs here. What the pods run (launch/kubernetes/pod.sh) is run for real, with the
variables that the operators set.
"""

import itertools
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

Document = dict[str, Any]


@pytest.fixture(scope="module", params=[True, False], ids=["save", "no save"])
def folder(request: pytest.FixtureRequest, project: Callable[..., Path]) -> Path:
    return project(
        project_name="A_b.c",
        clusters=["kubernetes"],
        nodes=2,
        gpus_per_node=2,
        checkpoint=request.param,
    )


def documents(folder: Path) -> dict[str, Document]:
    """All documents by kind; the two claims under their names."""
    files = sorted((folder / "launch" / "kubernetes").glob("*.yaml"))
    found = itertools.chain(*(yaml.safe_load_all(file.read_text()) for file in files))
    return {
        d["kind"] if d["kind"] != "PersistentVolumeClaim" else d["metadata"]["name"]: d
        for d in found
    }


def pod_specs(folder: Path) -> Iterator[Document]:
    found = documents(folder)
    job = found["TrainingRuntime"]["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]
    yield job["spec"]["template"]["spec"]
    yield found["PyTorchJob"]["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]


def test_trainer_reads_every_field(folder: Path) -> None:
    from kubeflow_trainer_api import models

    for kind in ("TrainJob", "TrainingRuntime"):
        document = documents(folder)[kind]
        model = getattr(models, f"TrainerV1alpha1{kind}")
        # A field that the model does not know is gone afterwards.
        assert model.from_dict(document).to_dict() == document


def test_job_set_of_the_trainer_is_admitted(folder: Path) -> None:
    """JobSet takes no hyphen in the name of a rule, which its models do not say: no pod is made."""
    policy = documents(folder)["TrainingRuntime"]["spec"]["template"]["spec"]["failurePolicy"]
    names = [rule["name"] for rule in policy.get("rules", [])]
    assert len(names) == (policy["maxRestarts"] > 0)
    assert all(re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) for name in names)


def test_training_operator_reads_every_field(folder: Path) -> None:
    from kubeflow.training import api_client, models

    client = api_client.ApiClient()

    class Response:
        """What the client reads a document from."""

        data = json.dumps(documents(folder)["PyTorchJob"])

    job = client.deserialize(Response, models.KubeflowOrgV1PyTorchJob)
    assert client.sanitize_for_serialization(job) == json.loads(Response.data)


def test_core_types_are_valid(folder: Path) -> None:
    import kubernetes_validate

    claims = [d for d in documents(folder).values() if d["kind"] == "PersistentVolumeClaim"]
    assert len(claims) == 2
    for document in claims:
        kubernetes_validate.validate(document, "1.31", strict=True)
    for spec in pod_specs(folder):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
        kubernetes_validate.validate(pod, "1.31", strict=True)


@pytest.mark.parametrize(
    ("network", "resource"),
    [("efa", "vpc.amazonaws.com/efa"), ("infiniband", "rdma/rdma_shared_device_a")],
)
def test_pods_reach_the_cards_of_a_fast_network(
    network: str, resource: str, project: Callable[..., Path]
) -> None:
    import kubernetes_validate

    folder = project(clusters=["kubernetes"], nodes=2, gpus_per_node=8, network=network)
    for spec in pod_specs(folder):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
        kubernetes_validate.validate(pod, "1.31", strict=True)
        container = spec["containers"][0]
        assert resource in container["resources"]["limits"]
        assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    assert "libibverbs1" in (folder / "launch" / "Dockerfile").read_text()


def test_names_lead_somewhere(folder: Path) -> None:
    found = documents(folder)
    assert (
        found["TrainJob"]["spec"]["runtimeRef"]["name"]
        == found["TrainingRuntime"]["metadata"]["name"]
    )
    for spec in pod_specs(folder):
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
        assert volumes.keys() == mounts.keys()
        for name in ("data", "runs"):
            assert volumes[name]["persistentVolumeClaim"]["claimName"] in found
            assert mounts[name]["mountPath"] == f"/workspace/{name}"
        assert volumes["shm"]["emptyDir"]["medium"] == "Memory"
        assert mounts["shm"]["mountPath"] == "/dev/shm"
        assert re.fullmatch(r"[1-9]\d*(Mi|Gi)", volumes["shm"]["emptyDir"]["sizeLimit"])
        command = spec["containers"][0]["command"]
        assert command == ["bash", "launch/kubernetes/pod.sh"]
        assert (folder / command[1]).exists()
        # torchrun's own limit for a save is shorter than the pod's.
        assert spec["terminationGracePeriodSeconds"] > 300


@pytest.mark.parametrize("operator", ["trainer", "training-operator"])
def test_pods_form_one_world(
    operator: str, project: Callable[..., Path], environment: dict[str, str], free_port: int
) -> None:
    """Two pods with two processes each, with the variables that each operator sets."""
    saves = operator == "trainer"
    folder = project(clusters=["kubernetes"], nodes=2, gpus_per_node=2, checkpoint=saves)
    meeting = {"PET_NPROC_PER_NODE": "2"}
    if operator == "trainer":
        address = {"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(free_port)}
        variables = [
            meeting | address | {"PET_NNODES": "2", "PET_NODE_RANK": str(rank)} for rank in (0, 1)
        ]
    else:
        elastic = {
            "PET_NNODES": "2:2",
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"127.0.0.1:{free_port}",
            "PET_RDZV_ID": "job",
            "PET_MAX_RESTARTS": "0",
        }
        variables = [meeting | elastic] * 2
    arguments = (f"run.name={operator}", "train.max_steps=1", "train.epochs=1", "ddp.device=cpu")
    pods = [
        subprocess.Popen(
            ["bash", "launch/kubernetes/pod.sh", *arguments],
            cwd=folder,
            env={**environment, **each, "HOSTNAME": f"job-node-0-{number}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number, each in enumerate(variables)
    ]
    outputs = [pod.communicate(timeout=300)[0] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0], "\n".join(outputs)
    assert "4 x cpu" in "".join(outputs)
