"""ddpgen: generates complete PyTorch DistributedDataParallel projects."""

__version__ = "0.4.0+dev"
