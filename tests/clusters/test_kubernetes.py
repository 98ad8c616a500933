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
    yield job_of(found["JobSet"]["spec"])["spec"]["template"]["spec"]


def job_of(job_set: Document) -> Document:
    """The one job of a set."""
    (job,) = job_set["replicatedJobs"]
    template: Document = job["template"]
    return template


def job_sets(folder: Path) -> Iterator[Document]:
    """The set of the manifest, and that of which Kubeflow Trainer makes one."""
    found = documents(folder)
    yield found["JobSet"]["spec"]
    yield found["TrainingRuntime"]["spec"]["template"]["spec"]


def test_trainer_reads_every_field(folder: Path) -> None:
    from kubeflow_trainer_api import models

    kinds = {
        "TrainJob": models.TrainerV1alpha1TrainJob,
        "TrainingRuntime": models.TrainerV1alpha1TrainingRuntime,
        "JobSet": models.JobsetV1alpha2JobSet,  # Trainer's package has JobSet's models too
    }
    for kind, model in kinds.items():
        document = documents(folder)[kind]
        # A field that the model does not know is gone afterwards.
        assert model.from_dict(document).to_dict() == document


def test_job_sets_are_admitted_and_say_what_ends_them(folder: Path) -> None:
    """A code that means "not again" ends the set; all else, such as a lost node, restarts it.

    JobSet takes no hyphen in the name of a rule, which its models do not say: no pod is made.
    """
    saves = [*folder.glob("launch/again.sh")] != []
    for spec in job_sets(folder):
        policy = spec["failurePolicy"]
        assert policy["maxRestarts"] == (1000 if saves else 0)
        rules = policy.get("rules", [])
        assert all(re.fullmatch("[A-Za-z][A-Za-z0-9_]*", rule["name"]) for rule in rules)
        ends = [(r["action"], r["onJobFailureReasons"]) for r in rules]
        assert ends == [("FailJobSet", ["PodFailurePolicy"])] * saves
        job = job_of(spec)["spec"]
        assert job["backoffLimit"] == 0, "a pod alone starts again, without the others"
        codes = [
            r["onExitCodes"]["values"] for r in job.get("podFailurePolicy", {"rules": []})["rules"]
        ]
        assert codes == [[2, 93]] * saves


def test_job_of_the_set_is_valid(folder: Path) -> None:
    """Pods with numbers, each with its rank, which meet at the first one's name."""
    import kubernetes_validate

    document = documents(folder)["JobSet"]
    job = job_of(document["spec"])
    kind = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
    kubernetes_validate.validate({**kind, **job}, "1.31", strict=True)
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    (container,) = spec["template"]["spec"]["containers"]
    variables = {each["name"]: each for each in container["env"]}
    pods = int(variables["PET_NNODES"]["value"])
    assert (spec["completions"], spec["parallelism"]) == (pods, pods)
    name = document["metadata"]["name"]
    assert len(f"{name}-node-0-{pods}-abcde") <= 63, "JobSet refuses it"
    # Set, job, number in the set, number in the job; and the service that JobSet makes for the set.
    assert variables["PET_MASTER_ADDR"]["value"] == f"{name}-node-0-0.{name}"
    field = variables["PET_NODE_RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert field == "metadata.annotations['batch.kubernetes.io/job-completion-index']"


JOBS = ("TrainJob", "PyTorchJob", "JobSet")


@pytest.mark.parametrize(
    ("given", "queue", "memory"),
    [
        ({}, None, None),
        ({"kueue_queue": "team-a"}, "team-a", None),
        ({"memory": "480G"}, None, "480Gi"),
        ({"memory": "64000"}, None, "64000Mi"),  # as under SLURM
        ({"memory": "0"}, None, None),  # all of it, which Kubernetes cannot say
    ],
)
def test_queue_and_memory_are_said_where_they_are_answered(
    given: dict[str, str], queue: str | None, memory: str | None, project: Callable[..., Path]
) -> None:
    import kubernetes_validate

    folder = project(clusters=["kubernetes"], nodes=2, gpus_per_node=2, **given)
    found = documents(folder)
    for kind in JOBS:
        labels = {"kueue.x-k8s.io/queue-name": queue} if queue else None
        assert found[kind]["metadata"].get("labels") == labels
    for spec in pod_specs(folder):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
        kubernetes_validate.validate(pod, "1.31", strict=True)
        # What is limited is requested too, where nothing else is said.
        resources = spec["containers"][0]["resources"]
        assert resources.keys() == {"limits"}
        assert resources["limits"].get("memory") == memory
    text = "".join(p.read_text() for p in (folder / "launch" / "kubernetes").iterdir())
    assert ("kueue" in text.lower()) == bool(queue)
    assert ("memory:" in text) == bool(memory)


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
        if (folder / "engine/checkpoint.py").exists():
            # torchrun's own limit for a save is shorter than the pod's.
            assert spec["terminationGracePeriodSeconds"] > 300


OPERATORS = ("trainer", "training-operator", "jobset")


@pytest.mark.parametrize("operator", OPERATORS)
def test_pods_form_one_world(
    operator: str, project: Callable[..., Path], environment: dict[str, str], free_port: int
) -> None:
    """Two pods with two processes each, with the variables that each operator or manifest sets."""
    saves = operator != "training-operator"
    folder = project(clusters=["kubernetes"], nodes=2, gpus_per_node=2, checkpoint=saves)
    meeting = {"PET_NPROC_PER_NODE": "2"}
    if operator == "trainer":
        address = {"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(free_port)}
        variables = [
            meeting | address | {"PET_NNODES": "2", "PET_NODE_RANK": str(rank)} for rank in (0, 1)
        ]
    elif operator == "jobset":
        (container,) = job_of(documents(folder)["JobSet"]["spec"])["spec"]["template"]["spec"][
            "containers"
        ]
        said = {each["name"]: each.get("value", "") for each in container["env"]}
        said |= {"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(free_port)}
        variables = [said | {"PET_NODE_RANK": str(rank)} for rank in (0, 1)]
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
