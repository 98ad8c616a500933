@dataclass(frozen=True)
class Data:
    source: str
    text: str
    label: str
    pretrained: str
    vocabulary: Annotated[int, "at least 1 and below 2**24", lambda number: 1 <= number < 2**24]
    length: settings.Count
    folder: str
    validation: settings.Fraction
    split_seed: int
    workers: settings.Workers


@dataclass(frozen=True)
class Model:
    width: settings.Count
    layers: settings.Natural
    heads: settings.Count
    dropout: settings.Share
