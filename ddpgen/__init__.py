"""ddpgen: generates complete PyTorch DistributedDataParallel projects."""

__version__ = "0.7.0+dev"
