"""ddpgen: generates complete PyTorch DistributedDataParallel projects."""

__version__ = "0.6.0+dev"
