@dataclass(frozen=True)
class Data:
    source: str
    folder: str
    image_size: int
    channels: int
    validation: float
    split_seed: int
    rotate: float
    zoom: float
    shift: float
    flip: bool
    workers: int


@dataclass(frozen=True)
class Model:
    width: int
    stages: list[int]
    stem_stride: int
    # {% if dynamic_graph %}
    layer_drop: float
    # {% endif %}
