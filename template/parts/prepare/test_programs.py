def test_other_program_prepares_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this program prepared before an edit, or with another library, does not count."""
    cfg = common.settings(tmp_path).data
    places = [data.prepared_path(cfg)]
    monkeypatch.setattr(data, "version", lambda _: "0")
    places.append(data.prepared_path(cfg))
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"edited")
    assert len({*places, data.prepared_path(cfg)}) == 3, "what was prepared otherwise is read"
