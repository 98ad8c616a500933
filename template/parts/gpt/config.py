@dataclass(frozen=True)
class Data:
    """Which tokens, and how they are cut into windows."""

    source: str
    pattern: str
    tokenizer: str
    end_of_text: str
    token_dtype: Literal["uint8", "uint16", "uint32", "int16", "int32", "int64"]
    vocabulary: int
    folder: str
    validation: float
    window: int
    windows_per_epoch: int
    workers: int


@dataclass(frozen=True)
class Model:
    """Size of the network."""

    width: int
    layers: int
    heads: int
    dropout: float
    # {% if dynamic_graph %}
    layer_drop: float
    # {% endif %}
