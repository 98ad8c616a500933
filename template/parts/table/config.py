@dataclass(frozen=True)
class Data:
    """Which rows, which column to predict from which others, and how."""

    source: str
    target: str
    task: Literal["auto", "regression", "binary", "classes"]
    categories: list[str]
    leave_out: list[str]
    folder: str
    validation: float
    split_seed: int
    workers: int


@dataclass(frozen=True)
class Model:
    """Size of the network."""

    width: int
    depth: int
    dropout: float
    # {% if dynamic_graph %}
    layer_drop: float
    # {% endif %}
