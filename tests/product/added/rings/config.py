@dataclass(frozen=True)
class Data:
    folder: str
    points: int
    workers: int


@dataclass(frozen=True)
class Model:
    width: int
    # {% if dynamic_graph %}
    layer_drop: float
    # {% endif %}
