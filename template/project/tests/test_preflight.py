"""The checks before a long job, on real ranks, sockets and files."""

import dataclasses
import json
import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import common
import devices
import links
import meeting
import preflight
import probes
import ranks
import verdicts

HOST = probes.Host(
    rank=0,
    host="host1",
    versions="torch 2",
    interface="eth0",
    address="10.0.0.1",
    interface_problem="",
    link_gbit=10.0,
    rdma=False,
    data="9 + 1 samples",
    shm_gib=8.0,
    locked_bytes=-1,
    open_files=4096,
    with_nccl=False,
)
OTHER = dataclasses.replace(HOST, rank=1, host="host2", address="10.0.0.2")
GPU = devices.Device(0, 0, "host1", "cuda:0", "A100", "GPU-1", 39.4, True, True, 0.01)


def by_name(checks: Iterable[verdicts.Check]) -> dict[str, verdicts.Check]:
    return {check.name: check for check in checks}


def test_two_ranks_find_nothing_wrong(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    argv = [f"--json={found}", *common.SMALL, f"run.folder={tmp_path}", "ddp.expected_world_size=2"]
    assert ranks.run(2, preflight.main, argv) == [0, 0]
    content = json.loads(found.read_text())
    assert [rank["rank"] for rank in content["ranks"]] == [0, 1]
    checks = {check["name"]: check for check in content["checks"]}
    assert not [check for check in checks.values() if check["verdict"] == "FAILED"]
    assert checks["world"]["found"] == "2 ranks on 1 hosts, expected 2"
    assert "all-reduce of 16 MiB" in checks
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found.json"]


def test_each_difference_between_hosts_is_named(tmp_path: Path) -> None:
    cfg = common.settings(tmp_path, "data.workers=2")
    differences: list[tuple[str, str, Any, str]] = [
        ("versions", "versions", "torch 1.0", "FAILED"),
        ("data", "data", "3 + 1 samples", "FAILED"),
        ("data cannot be opened", "data", f"{probes.NO_DATA}: missing", "FAILED"),
        ("/dev/shm", "shm_gib", 0.06, "note"),
        ("open files", "open_files", 256, "note"),
    ]
    for name, field, value, verdict in differences:
        changed = dataclasses.replace(OTHER, **{field: value})
        check = by_name(verdicts.of_hosts([HOST, changed], cfg))[name]
        assert (check.verdict, "rank 1" in check.found) == (verdict, True), check
    assert {check.verdict for check in verdicts.of_hosts([HOST, OTHER], cfg)} == {"ok"}


def test_limits_count_only_where_something_needs_them() -> None:
    small = dataclasses.replace(OTHER, shm_gib=0.06, locked_bytes=2**16)
    assert verdicts.shared_memory([HOST, small], workers=0).verdict == "ok"
    with_gpus = dataclasses.replace(small, with_nccl=True)
    assert verdicts.shared_memory([HOST, with_gpus], workers=0).verdict == "note"
    assert verdicts.locked_memory([HOST, small]).verdict == "ok"
    with_rdma = dataclasses.replace(small, rdma=True)
    assert "rank 1 on host2" in verdicts.locked_memory([HOST, with_rdma]).found


def test_interfaces_at_which_nobody_can_be_reached_are_named() -> None:
    assert verdicts.of_interfaces([HOST, OTHER]).verdict == "ok"
    looped = dataclasses.replace(OTHER, address="127.0.1.1")
    sought = verdicts.of_interfaces([dataclasses.replace(HOST, address="192.168.0.1"), looped])
    assert sought.verdict == "FAILED"
    assert sought.found.startswith("host2: its own name means")
    assert verdicts.of_interfaces([HOST, looped]).verdict == "note"  # it goes to host1 itself
    third = dataclasses.replace(looped, host="host3")
    assert verdicts.of_interfaces([HOST, looped, third]).verdict == "FAILED"
    alone = dataclasses.replace(looped, host="host1")
    assert verdicts.of_interfaces([alone]).verdict == "ok"
    assert verdicts.of_interfaces([dataclasses.replace(alone, interface_problem="no")]).found == (
        "host1: no"
    )


def test_the_interface_is_the_one_that_gloo_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.delenv("NCCL_SOCKET_IFNAME", raising=False)
    loopback = next(name for name, its in probes.interfaces().items() if its == "127.0.0.1")
    _, address, problem = probes.find_address(with_nccl=True)
    assert (address, problem) == (probes.usable_address(socket.gethostname()), "")
    assert probes.usable_address("localhost") in ("127.0.0.1", "::1")
    assert probes.usable_address("no-such-host.invalid") == probes.LOOPBACK
    assert probes.usable_address("192.0.2.1") == probes.LOOPBACK  # another host's
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", loopback)
    assert probes.find_address(with_nccl=False) == (loopback, "127.0.0.1", "")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "no-such")
    assert "NCCL_SOCKET_IFNAME=no-such" in probes.find_address(with_nccl=True)[2]
    assert not probes.find_address(with_nccl=False)[2]
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no-such")
    assert "GLOO_SOCKET_IFNAME=no-such" in probes.find_address(with_nccl=False)[2]


@pytest.mark.parametrize(
    ("wanted", "name", "taken"),
    [
        ("eth", "eth0", True),
        ("=eth", "eth0", False),
        ("=eth0,ib0", "ib0", True),
        ("^docker,lo", "docker0", False),
        ("^docker,lo", "eth0", True),
        ("^=eth0", "eth01", True),
    ],
)
def test_interfaces_of_nccl(wanted: str, name: str, taken: bool) -> None:
    assert probes.nccl_takes(wanted, name) == taken


def test_nominal_bandwidth_is_what_the_kernel_states(tmp_path: Path) -> None:
    for name, text in [
        ("net/eth0/speed", "25000\n"),
        ("net/veth/speed", "-1\n"),
        ("infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n"),
        ("infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
        ("infiniband/mlx5_1/ports/1/rate", "200 Gb/sec (4X HDR)\n"),
        ("infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n"),
        ("infiniband/mlx5_2/ports/1/rate", "10 Gb/sec (4X SDR)\n"),
        ("infiniband/mlx5_2/ports/1/state", "1: DOWN\n"),
    ]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert probes.nominal_gbit("eth0", False, tmp_path) == 25
    assert probes.nominal_gbit("veth", False, tmp_path) == 0
    assert probes.nominal_gbit("none", False, tmp_path) == 0
    assert probes.nominal_gbit("eth0", True, tmp_path) == 600


def test_bandwidth_far_below_the_links_is_noted() -> None:
    hosts = [HOST, OTHER]  # 10 Gbit/s are 1.25 GB/s; 16 MiB cross the link once
    assert verdicts.bandwidth(16, 0.02, hosts, last=True).verdict == "ok"
    slow = verdicts.bandwidth(16, 0.2, hosts, last=True)
    assert (slow.verdict, slow.found) == (
        "note",
        "0.08 GB/s, 200.00 ms, 7% of the 10 Gbit/s between the hosts",
    )
    assert verdicts.bandwidth(16, 0.2, hosts, last=False).verdict == "ok"
    assert verdicts.bandwidth(16, 0.2, [HOST, HOST], last=True).verdict == "ok"


def test_each_difference_between_devices_is_named() -> None:
    """D10: also two ranks on one GPU."""
    other = dataclasses.replace(GPU, rank=1, local_rank=1, device="cuda:1", device_id="GPU-2")
    assert {check.verdict for check in verdicts.of_devices([GPU, other])} == {"ok"}
    assert verdicts.device_map([GPU, other]) == ["host1  ranks 0-1 on GPU 0-1: A100, 39.4 GiB"]
    differences: list[tuple[str, str, Any, str]] = [
        ("GPU used twice", "device_id", "GPU-1", "FAILED"),
        ("all-reduce is wrong", "reduces", False, "FAILED"),
        ("gradients are not averaged", "averages", False, "FAILED"),
        ("devices", "memory_gib", 23.6, "note"),
    ]
    for name, field, value, verdict in differences:
        changed = dataclasses.replace(other, **{field: value})
        check = by_name(verdicts.of_devices([GPU, changed]))[name]
        assert check.verdict == verdict
        assert "1" in check.found
    mixed = verdicts.of_devices([GPU, dataclasses.replace(other, memory_gib=23.6)])
    assert "micro-batch must fit into 23.6 GiB" in by_name(mixed)["devices"].found


def test_slow_ranks_are_named() -> None:
    found = [dataclasses.replace(GPU, rank=rank) for rank in range(4)]
    assert verdicts.pace(found).verdict == "ok"
    found[2] = dataclasses.replace(GPU, rank=2, host="host2", seconds=0.02)
    check = verdicts.pace(found)
    assert (check.verdict, check.found) == (
        "note",
        "rank 2 on host2, 2.00 x the median; slow are rank 2 on host2",
    )


def test_pairs_and_clocks_are_named() -> None:
    fine = [links.Links("host1", {}, 0.0, 0.0), links.Links("host2", {}, 0.5, 0.001)]
    assert [verdicts.reach(fine).verdict, verdicts.clocks(fine).verdict] == ["ok", "ok"]
    bad = [fine[0], links.Links("host2", {"host1": "timed out"}, -3.0, 0.001)]
    assert verdicts.reach(bad) == verdicts.Check(
        "hosts reach each other", "FAILED", "host2 to host1: timed out"
    )
    assert verdicts.clocks(bad).found == "against host1: host2 -3.0 s (within 0.001 s)"
    unsure = [fine[0], links.Links("host2", {}, 3.0, 2.5)]
    assert verdicts.clocks(unsure).verdict == "ok"


def as_two_hosts(folder: str) -> list[links.Links]:
    """Survey and shared folder from ranks that take themselves for hosts with clocks apart."""
    rank = int(os.environ["RANK"])
    now = time.time
    common.replace(time, "time", lambda: now() + 100 * rank)
    meet = meeting.Meeting(60)
    found = links.survey(meet, f"host{rank % 2}", f"127.0.0.{rank % 2 + 1}")
    os.chdir(f"{folder}/{rank // 2}")
    unseen = links.unshared(meet, Path("runs"), seconds=0.3)
    assert [bool(problem) for problem in unseen] == [False, False, True]
    return found


def test_hosts_that_reach_each_other_but_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "1").mkdir()
    found = ranks.run(3, as_two_hosts, str(tmp_path))
    assert found[0] == found[1] == found[2]
    first, second = found[0]
    assert [first.host, second.host] == ["host0", "host1"]
    assert first.broken == second.broken == {}
    assert abs(second.ahead - 100) <= second.within < 50
    assert not list(tmp_path.glob("*/runs/*"))


def test_letters_without_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        place = deaf.getsockname()[:2]
        assert links.write(place, seconds=0.2).problem == "timed out"
    assert links.write(place, seconds=0.2).problem == "Connection refused"
    with links.answering("127.0.0.1") as port:
        places = {"host1": ("127.0.0.1", port), "host2": ("127.0.0.1", port), "host3": place}
        found = links.write_to_all("host1", "host1", places, 2.0)
    assert found.broken["host2"] == "both have the address 127.0.0.1"
    assert set(found.broken) == {"host2", "host3"}


def test_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with links.answering("::1") as port:
        assert not links.write(("::1", port), 2.0).problem


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    unseen = ranks.run(2, unshared_of, str(tmp_path / "file" / "runs"))
    assert unseen == [["cannot be written: Not a directory"] * 2] * 2
    check = verdicts.of_folder("runs", unseen[0], [HOST, OTHER])
    assert (check.verdict == "ok", "rank 0 on host1, rank 1 on host2" in check.found) == (
        False,
        True,
    )
    assert verdicts.of_folder("runs", ["", ""], [HOST, OTHER]).verdict == "ok"


def unshared_of(folder: str) -> list[str]:
    return links.unshared(meeting.Meeting(60), Path(folder))


def meet_late(seconds: float) -> str:
    """Rank 1 does not come."""
    if os.environ["RANK"] == "1":
        return ""
    with pytest.raises(SystemExit) as stopped:
        meeting.Meeting(seconds).gather("test", 1)
    return str(stopped.value)


def test_ranks_that_do_not_come_are_named() -> None:
    assert ranks.run(3, meet_late, 0.5) == ["no sign of rank 1 within 0 s", "", "1"]


def test_no_way_to_where_all_meet_is_said_by_the_rank() -> None:
    with pytest.raises(SystemExit, match="me cannot resolve the name no-such"):
        meeting.find(("no-such-host.invalid", 1), 0, "me")
    with socket.create_server(("127.0.0.1", 0)) as gone:
        place = gone.getsockname()[:2]
        meeting.find(place, 0, "me")
    with pytest.raises(SystemExit, match=r"me finds no way to .*: Connection refused"):
        meeting.find(place, 0, "me")


def test_long_lists_stay_readable() -> None:
    assert meeting.spans([5, 0, 1, 2]) == "0-2, 5"
    assert meeting.named([3]) == "rank 3"
    assert meeting.named(range(64)) == "ranks 0-63"
    assert verdicts.places([HOST, OTHER]) == "rank 0 on host1, rank 1 on host2"
    assert verdicts.listed([str(n) for n in range(10)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
