@dataclass(frozen=True)
class Data:
    folder: str
    points: settings.Count
    workers: settings.Natural


@dataclass(frozen=True)
class Model:
    width: settings.Count
    # {% if dynamic_graph %}
    layer_drop: float
    # {% endif %}
