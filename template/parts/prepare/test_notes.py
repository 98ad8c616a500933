def test_what_is_noted_of_images_is_said(tmp_path: Path) -> None:
    """Copies in both splits and in two classes, classes that look alike, and other files."""
    for part in ("train", "dev"):
        draw(tmp_path / part, 3)
    shutil.copytree(tmp_path / "train" / "red", tmp_path / "train" / "RED")
    (tmp_path / "train" / "red" / "a.heic").touch()
    (tmp_path / "train" / "red" / "Thumbs.db").touch()
    cfg = settings(tmp_path, source=str(tmp_path))
    data.prepare(cfg)
    said = str(data.open_splits(cfg).shape)
    assert "RED and red are different classes" in said
    assert "; 9 of the 9 held out are for training, too; 3 images are in several classes" in said
    assert "; 8 files are not read, by their endings, such as a.heic" in said


def test_pixels_of_12_bits_are_said(tmp_path: Path) -> None:
    """Of 16 bits they are hardly told from black."""
    for bits, told in ((12, True), (16, False)):
        for name in ("day", "night"):
            (tmp_path / str(bits) / name).mkdir(parents=True)
            for number in range(3):
                image = Image.new("I;16", (16, 16))
                image.putpixel((number, 0), 2**bits - 1)
                image.save(tmp_path / str(bits) / name / f"{number}.png")
        cfg = settings(tmp_path, source=str(tmp_path / str(bits)))
        data.prepare(cfg)
        assert ("6 images of 16 bits is above 4,095" in str(data.open_splits(cfg).shape)) == told


def test_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    draw(tmp_path / "images", 2)
    (tmp_path / "images" / "red" / "9.png").symlink_to(tmp_path / "gone.png")
    with pytest.raises(config.ConfigError, match=r"9\.png cannot be read: No such file"):
        data.prepare(settings(tmp_path, source=str(tmp_path / "images")))
