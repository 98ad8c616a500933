"""ddpgen: generates complete PyTorch DistributedDataParallel projects."""

__version__ = "0.2.0+dev"
