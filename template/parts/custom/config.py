@dataclass(frozen=True)
class Data:
    folder: str
    validation: settings.Fraction
    split_seed: int
    workers: settings.Workers


@dataclass(frozen=True)
class Model:
    width: settings.Count
    depth: settings.Natural
    # {% if dynamic_graph %}
    layer_drop: settings.Share
    # {% endif %}
