@dataclass(frozen=True)
class Data:
    folder: str
    validation: float
    split_seed: int
    workers: int


@dataclass(frozen=True)
class Model:
    width: int
    depth: int
    # {% if dynamic_graph %}
    layer_drop: float
    # {% endif %}
