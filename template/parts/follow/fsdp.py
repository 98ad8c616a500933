    def follow(self, network: nn.Module) -> None:
        """Have the stretches of work marked, by hooks on both sides of FSDP's own.

        FSDP waits for weights before each forward and backward pass of a block, and for gradients
        behind the latter. In between this rank works.
        """
        for block in network.modules():
            if isinstance(block, FSDPModule):
                follow(block, self.end, self.begin, prepend=True)
                follow(block, self.begin, self.end, prepend=False)
        # The gradients of blocks whose input has none are sent in a callback at the very end.
        engine = Variable._execution_engine
        network.register_forward_hook(
            lambda _, __, output: at_gradient(output, lambda: engine.queue_callback(self.end)),
            prepend=True,
        )
        # {% if accumulation %}
        network.register_forward_hook(
            lambda _, __, output: at_gradient(output, lambda: engine.queue_callback(self.go_on))
        )
        # {% endif %}
