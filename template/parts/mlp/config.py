@dataclass(frozen=True)
class Data:
    source: str
    target: str
    folder: str
    validation: settings.Fraction
    split_seed: int
    workers: settings.Workers


@dataclass(frozen=True)
class Model:
    width: settings.Count
    depth: settings.Natural
    dropout: settings.Share
    # {% if dynamic_graph %}
    layer_drop: settings.Share
    # {% endif %}
