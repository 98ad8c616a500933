def test_class_of_which_nothing_is_held_out_is_said(tmp_path: Path) -> None:
    """What the validation measures says nothing of the class."""
    draw(tmp_path / "images" / "train", 2)
    draw(tmp_path / "images" / "val", 1)
    for path in (tmp_path / "images" / "val" / "red").iterdir():
        path.unlink()
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    data.prepare(cfg)
    assert "; no image held out is of red" in str(data.open_splits(cfg).shape)
