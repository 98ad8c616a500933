"""What NCCL's logs say, from samples in the form that NCCL's versions write."""

from pathlib import Path

import pytest

from tools.preflight import nccl_logs


def sample(before: str, *lines: str) -> str:
    """A log, each line of which begins with host, process, thread and device."""
    return "".join(f"{before} {line}\n" for line in lines)


# A node with InfiniBand, as NCCL 2.21 writes.
INFINIBAND = sample(
    "node2:4711:4790 [0]",
    "NCCL INFO cudaDriverVersion 12040",
    "NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>",
    "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.2<0>",
    "NCCL INFO Using network IB",
    "NCCL INFO ncclCommInitRank comm 0x8e rank 1 nranks 2 cudaDev 0 busId 7000 - Init START",
    "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0/GDRDMA",
    "NCCL INFO Channel 01/0 : 0[0] -> 1[0] [receive] via NET/IB/1/GDRDMA",
    "NCCL INFO Connected all rings",
    "NCCL INFO Connected all trees",
    "NCCL INFO ncclCommInitRank comm 0x8e rank 1 nranks 2 cudaDev 0 busId 7000 - Init COMPLETE",
)
# Another one without a card, which does not get through. This version puts the time first.
REFUSED = "socketStartConnect: Connect to 10.0.0.2<45763> failed : Connection refused"
SOCKET = sample(
    "[1970-01-01 05:10:25] node1:812:901 [0]",
    "NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>",
    "NCCL INFO NET/IB : No device found.",
    "NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>",
    "NCCL INFO Using network Socket",
    "NCCL INFO ncclCommInitRankConfig comm 0x55 rank 0 nranks 2 cudaDev 0 - Init START",
    f"misc/socket.cc:484 NCCL WARN {REFUSED}",
    f"misc/socket.cc:484 NCCL WARN {REFUSED}",
)
# Inside one node, an old version, whose process has a second communicator of two of four ranks.
INSIDE = sample(
    "node3:99:120 [2]",
    "NCCL INFO Bootstrap : Using [0]ib0:10.1.0.3<0>",
    "NCCL INFO comm 0x77 rank 2 nranks 4 cudaDev 2 busId 3d000 - Init COMPLETE",
    "NCCL INFO Channel 00 : 2[3d000] -> 3[3e000] via P2P/IPC/read",
    "NCCL INFO Channel 01 : 2[3d000] -> 3[3e000] via P2P/IPC/read",
    "NCCL INFO Channel 02 : 2[3d000] -> 1[1b000] via SHM/direct/direct",
    "NCCL INFO Connected all rings, use ring PXN 0 GDR 1",
    "NCCL INFO comm 0x78 rank 0 nranks 2 cudaDev 2 busId 3d000 - Init COMPLETE",
)


def write(folder: Path, **samples: str) -> list[Path]:
    paths = [folder / f"nccl.{name}.log" for name in samples]
    for path, text in zip(paths, samples.values(), strict=True):
        path.write_text(text)
    return paths


def test_each_log_is_a_ranks(tmp_path: Path) -> None:
    logs = nccl_logs.read(write(tmp_path, b=INFINIBAND, a=SOCKET, other="step 1/9 loss 0.1\n"))
    assert [(log.rank, log.host, log.process) for log in logs] == [
        (0, "node1", "812"),
        (1, "node2", "4711"),
    ]
    assert [log.bootstrap for log in logs] == ["eth0:10.0.0.1", "eth0:10.0.0.2"]
    assert [log.network for log in logs] == ["Socket", "IB"]
    assert logs[1].cards == "[0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]"
    assert [log.rings for log in logs] == [False, True]
    assert logs[1].ways == {"NET/IB": 2}


def test_ranks_at_fault_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nccl_logs.main([str(path) for path in write(tmp_path, a=SOCKET, b=INFINIBAND)])
    said = capsys.readouterr().out
    assert "rank 0 of 2, node1 process 812, nccl.a.log: NEVER JOINED" in said
    assert "rings     NOT CONNECTED" in said
    assert "network   Socket: [0]eth0:10.0.0.1" in said
    assert "rank 0 never joined" in said
    assert "networks differ: Socket on rank 0; IB on rank 1" in said
    assert f"rank 0 warns 2 times of: {REFUSED}" in said
    assert "rank 1 of 2, node2 process 4711, nccl.b.log: joined" in said


def test_a_rank_among_all_is_meant(tmp_path: Path) -> None:
    """Not its place in a smaller communicator; ranks without a log are named."""
    (log,) = nccl_logs.read(write(tmp_path, c=INSIDE))
    assert (log.rank, log.size, log.complete, log.rings) == (2, 4, True, True)
    assert log.ways == {"P2P/IPC": 2, "SHM/direct": 1}
    assert nccl_logs.conclude([log]) == [f"no log of rank {n}: gather it" for n in (0, 1, 3)]


def test_files_without_lines_of_nccl_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="NCCL_DEBUG=INFO"):
        nccl_logs.main([str(path) for path in write(tmp_path, train="step 1/9\n")])
