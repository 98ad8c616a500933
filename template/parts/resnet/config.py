@dataclass(frozen=True)
class Data:
    source: str
    label: str
    folder: str
    image_size: settings.Count
    channels: Annotated[int, "1 (grey) or 3 (colours)", lambda number: number in (1, 3)]
    validation: settings.Fraction
    split_seed: int
    rotate: settings.Amount
    zoom: settings.Share
    shift: settings.Share
    flip: bool
    workers: settings.Workers


@dataclass(frozen=True)
class Model:
    width: settings.Count
    stages: list[settings.Count]
    stem_stride: settings.Count
    # {% if dynamic_graph %}
    layer_drop: settings.Share
    # {% endif %}
