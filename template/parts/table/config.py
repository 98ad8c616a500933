@dataclass(frozen=True)
class Data:
    """The rows, the column to predict, the columns to predict from, and the kind of the task."""

    source: str
    target: str
    task: Literal["auto", "regression", "binary", "classes"]
    categories: list[str]
    leave_out: list[str]
    gaps: list[str]
    numbers: Literal["plain", "1,234.5", "1.234,5"]
    groups: str
    folder: str
    validation: settings.Fraction
    split_seed: int
    workers: settings.Workers


@dataclass(frozen=True)
class Model:
    """Size of the network."""

    width: settings.Count
    depth: settings.Natural
    dropout: settings.Share
    # {% if dynamic_graph %}
    layer_drop: settings.Share
    # {% endif %}
