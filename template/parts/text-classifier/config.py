@dataclass(frozen=True)
class Data:
    source: str
    text: str
    label: str
    pretrained: str
    vocabulary: settings.Count
    length: settings.Count
    folder: str
    validation: settings.Fraction
    split_seed: int
    workers: settings.Natural


@dataclass(frozen=True)
class Model:
    width: settings.Count
    layers: settings.Natural
    heads: settings.Count
    dropout: settings.Share
