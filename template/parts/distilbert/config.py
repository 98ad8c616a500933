@dataclass(frozen=True)
class Data:
    source: str
    text: str
    label: str
    pretrained: str
    vocabulary: int
    length: int
    folder: str
    validation: float
    split_seed: int
    workers: int


@dataclass(frozen=True)
class Model:
    width: int
    layers: int
    heads: int
    dropout: float
    # {% if dynamic_graph %}
    layer_drop: float
    # {% endif %}
