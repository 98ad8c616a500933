@dataclass(frozen=True)
class Data:
    source: str
    label: str
    folder: str
    image_size: settings.Count
    channels: settings.Count
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
