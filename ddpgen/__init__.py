"""ddpgen: generates complete PyTorch DistributedDataParallel projects."""

__version__ = "0.5.0+dev"
