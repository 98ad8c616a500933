"""The example's own data. Replace this file together with data.py."""

import os
from pathlib import Path

import pytest
import torch

import data
from support import common


def test_prepared_data_appear_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under their final name other ranks find all of them, or nothing yet."""
    cfg = common.settings(tmp_path, f"data.folder={tmp_path}").data
    monkeypatch.setattr(os, "replace", lambda *_: None)  # as if the process ended just before
    data.prepare(cfg)
    assert not data.prepared_path(cfg).exists(), "half written, and taken for whole"


def test_rows_are_divided(tmp_path: Path) -> None:
    """Each of the 442 patients is in one split, scaled by those of the training split."""
    splits = data.open_splits(common.settings(tmp_path).data)
    assert (len(splits.train), len(splits.val)) == (354, 88)
    rows = torch.cat((splits.train.inputs, splits.val.inputs))
    assert len(rows.unique(dim=0)) == 442
    torch.testing.assert_close(splits.train.targets.std(), torch.tensor(1.0))
    torch.testing.assert_close(splits.train.inputs.mean(0), torch.zeros(10), atol=1e-5, rtol=0)
