@dataclass(frozen=True)
class Data:
    source: str
    column: str
    pretrained: str
    template: str
    vocabulary: Annotated[int, "at least 1 and below 2**24", lambda number: 1 <= number < 2**24]
    length: settings.Count
    folder: str
    validation: settings.Fraction
    split_seed: int
    workers: settings.Workers


@dataclass(frozen=True)
class Model:
    width: settings.Count
    layers: settings.Count
    heads: settings.Count
    # {% if lora %}
    lora_rank: settings.Count
    lora_alpha: settings.Count
    lora_dropout: settings.Share
    # {% endif %}
