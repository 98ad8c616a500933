"""ddpgen: generates complete PyTorch DistributedDataParallel projects."""

__version__ = "0.3.0+dev"
