@dataclass(frozen=True)
class Data:
    source: str
    target: str
    folder: str
    validation: float
    split_seed: int
    workers: int


@dataclass(frozen=True)
class Model:
    width: int
    depth: int
    dropout: float
    # {% if dynamic_graph %}
    layer_drop: float
    # {% endif %}
