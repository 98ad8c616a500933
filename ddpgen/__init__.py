"""ddpgen: generates complete PyTorch DistributedDataParallel projects."""

__version__ = "0.1.0+dev"
