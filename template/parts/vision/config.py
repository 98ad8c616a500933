@dataclass(frozen=True)
class Data:
    source: str
    label: str
    pretrained: str
    image_size: settings.Count
    folder: str
    validation: settings.Fraction
    split_seed: int
    crop: settings.Share
    flip: bool
    jitter: settings.Share
    mixup: settings.Amount
    workers: settings.Workers


@dataclass(frozen=True)
class Model:
    freeze: bool
    width: settings.Count
    layers: settings.Count
    heads: settings.Count
    patch: settings.Count
