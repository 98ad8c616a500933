    def follow(self, network: DistributedDataParallel) -> None:
        """Have the stretches of work marked, by hooks of the modules."""
        begin, end = torch.compiler.disable(self.begin), torch.compiler.disable(self.end)
        # DDP may send buffers before the inner forward, and waits for gradients at the end of a
        # backward pass, after the engine's callbacks that were there before.
        network.register_forward_pre_hook(lambda *_: end())
        network.module.register_forward_pre_hook(lambda *_: begin())

        def before_backward(module: object, inputs: object, output: Any) -> None:
            # {% if accumulation %}
            if not network.require_backward_grad_sync:
                return  # after this pass no rank is waited for: the next micro-batch follows
            # {% endif %}
            if isinstance(output, Tensor) and output.requires_grad:
                engine = Variable._execution_engine
                output.register_hook(lambda _: engine.queue_callback(end))

        network.register_forward_hook(before_backward)
