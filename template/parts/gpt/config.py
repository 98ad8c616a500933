@dataclass(frozen=True)
class Data:
    """The tokens, and their division into windows."""

    source: str
    pattern: str
    tokenizer: str
    end_of_text: str
    token_dtype: Literal["uint8", "uint16", "uint32", "int16", "int32", "int64"]
    vocabulary: settings.Count
    folder: str
    validation: settings.Fraction
    window: settings.Count
    windows_per_epoch: settings.Count
    workers: settings.Workers


@dataclass(frozen=True)
class Model:
    """Size of the network."""

    width: settings.Count
    layers: settings.Natural
    heads: settings.Count
    dropout: settings.Share
    # {% if dynamic_graph %}
    layer_drop: settings.Share
    # {% endif %}
