"""G3, G9, G11: mixed precision, and options that cost or break something."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    last_part,
    matches,
    receiver,
    source,
    unpacks,
)
from ddpgen.checking.reading.guards import without_gradients
from ddpgen.checking.reading.programs import Module, Program
from ddpgen.checking.reading.values import DDP, binding
from ddpgen.checking.reading.windows import goes_backward
from ddpgen.checking.registry import ERROR, STYLE, rule


@rule(
    "G9",
    "torch.cuda.amp is deprecated",
    "use torch.amp.GradScaler('cuda') and torch.autocast('cuda', ...)",
    severity=STYLE,
)
def old_amp(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        if name.startswith("torch.cuda.amp.") or name.endswith("cuda.amp.GradScaler"):
            yield call


@rule(
    "G9",
    "nobody maintains apex.amp any more",
    "use torch.autocast, and torch.amp.GradScaler for float16",
    severity=STYLE,
)
def amp_of_apex(module: Module) -> Iterator[ast.AST]:
    yield from module.called("apex.amp.initialize")


def scalers(module: Module) -> Iterator[ast.Call]:
    """Loss scalers that may be at work."""
    for call in module.called("GradScaler"):
        if constant(keyword(call, "enabled")) is not False:
            yield call


@rule(
    "G9",
    "a loss scaler with bfloat16, which has float32's range: it only skips steps",
    "leave the scaler out, or use float16",
)
def scaler_with_bfloat16(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"\.half\("):
        return
    casts = [call for _, call in module.program.called("autocast")]
    low = [c for c in casts if matches(c, r"\bbfloat16") and not matches(c, r"\b(float16|half)")]
    switches = {last_part(source(on)) for c in casts if (on := keyword(c, "enabled"))}
    for scaler in scalers(module) if casts and len(low) == len(casts) else ():
        on = keyword(scaler, "enabled")
        if on is None or {last_part(source(on))} == switches:  # both, or none of them
            yield scaler


@rule(
    "G9",
    "where autocast takes bfloat16, this loss scaler only skips steps",
    "pass enabled=dtype == torch.float16",
)
def scaler_whatever_the_type(module: Module) -> Iterator[ast.AST]:
    for _, cast in module.program.called("autocast"):
        dtype = keyword(cast, "dtype", 1)
        found = binding(module, dtype) if dtype is not None else None
        choice = found.value if found else dtype
        both = matches(choice, r"\bbfloat16") and matches(choice, r"\b(float16|half)\b")
        if isinstance(choice, ast.IfExp) and both:
            yield from (s for s in scalers(module) if keyword(s, "enabled") is None)
            return


@rule(
    "G9",
    "a loss scaler without autocast: nothing is in float16",
    "put forward and loss under torch.autocast, or leave the scaler out",
)
def scaler_without_autocast(module: Module) -> Iterator[ast.AST]:
    low = ("autocast", "half", "float16", "custom_fwd")
    if not any(map(module.program.references, low)):
        yield from scalers(module)


@rule(
    "G9",
    "float16 without a loss scaler: small gradients become zero, and nothing is learnt from them",
    "use torch.amp.GradScaler('cuda'), or bfloat16, which needs none",
)
def float16_without_scaler(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if program.says(r"[Ss]caler|loss_scale|autocast_(gpu_)?dtype"):
        return
    for call in module.called("autocast"):
        silent = without_gradients(module, call)
        off = constant(keyword(call, "enabled")) is False
        if _casts_to_float16(module, call) and not (silent or off):
            if any(goes_backward(module, c) for c in module.calls_below(_around(module, call))):
                yield call


def _casts_to_float16(module: Module, call: ast.Call) -> bool:
    """Whether an autocast is to float16, which is also what GPUs get where nothing is said."""
    dtype = keyword(call, "dtype", 0 if "cuda.amp" in module.name(call.func) else 1)
    if dtype is not None or unpacks(call):
        return matches(dtype, r"\b(float16|half)$")
    device = keyword(call, "device_type", 0)
    return "cuda.amp" in module.name(call.func) or constant(device) == "cuda"


def _around(module: Module, node: ast.AST) -> ast.AST:
    """The loop around a node, or the function."""
    return module.loop(node) or module.scope(node)


@rule(
    "G9",
    "the scaler is never updated: its scale stays, or every step after an overflow is skipped",
    "call scaler.update() after scaler.step(optimizer)",
    severity=ERROR,
)
def scale_never_updated(module: Module) -> Iterator[ast.AST]:
    program = module.program
    updates = [c for _, c in program.names.get("update", []) if matches(c.func, r"scaler")]
    if not updates and not program.says("NativeScaler"):
        for call in module.methods("step", "unscale_"):
            if matches(receiver(call), r"scaler") and any(any(scalers(m)) for m in program.modules):
                yield call
                return


@rule(
    "G9",
    "the scaler makes the step, and nothing scales the loss: small gradients become zero",
    "go backward from scaler.scale(loss)",
)
def never_scaled(module: Module) -> Iterator[ast.AST]:
    program = module.program
    scaled = program.names.get("scale", []) or program.says(r"\bscale_loss\b|NativeScaler")
    if scaled or not any(any(scalers(m)) for m in program.modules):
        return
    for call in module.methods("step"):
        if matches(receiver(call), r"scaler"):
            yield from module.methods("backward", below=module.scope(call))


@rule(
    "G11",
    "find_unused_parameters=True walks the graph in each step, and hides what never learns",
    "leave it out unless the graph changes; then say so in a comment beside it",
    severity=STYLE,
)
def unused_parameters(module: Module) -> Iterator[ast.AST]:
    for call in module.called(DDP):
        value = keyword(call, "find_unused_parameters")
        if value and constant(value) is True:
            if not module.commented(value) and not module.commented(call):
                yield value


@rule(
    "G3",
    "static_graph=True does not go with no_sync: it stops reducing, or raises",
    "leave static_graph out",
    severity=ERROR,
)
def static_graph(module: Module) -> Iterator[ast.AST]:
    for call in module.called(DDP):
        if constant(keyword(call, "static_graph")) is True and "no_sync" in module.program.names:
            yield call


@rule(
    "G11",
    "a parameter that nothing uses: DDP waits for its gradient, and raises in the second step",
    "remove it, or use it in forward",
)
def unused_parameter(module: Module) -> Iterator[ast.AST]:
    if not _waits_for_all(module.program):
        return
    made = set(module.called("torch.nn.Parameter"))
    for node, field in module.assignments(ast.Attribute):
        call, owner = node.value, module.owner(node)
        if call not in made or owner is None or not isinstance(call, ast.Call):
            continue
        if [module.name(base) for base in owner.bases] == ["torch.nn.Module"]:
            frozen = constant(keyword(call, "requires_grad", 1)) is False
            reads = module.program.references(field.attr)
            if not frozen and not any(_reads_model(n) for _, n in reads):
                yield call


def _reads_model(node: ast.Name | ast.Attribute) -> bool:
    """Whether an attribute is read, and not of something that certainly is no model."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    return not matches(node.value, r"^(arg|opt|c(on)?fi?g)\w*$")


def _waits_for_all(program: Program) -> bool:
    """Whether DDP waits for the gradient of every parameter, as far as its arguments tell."""
    wraps = [call for _, call in program.called(DDP)]
    allowed = [keyword(c, "find_unused_parameters") or keyword(c, "static_graph") for c in wraps]
    may_miss = any(value is not None and constant(value) is not False for value in allowed)
    return bool(wraps) and not may_miss and not any(map(unpacks, wraps))


@rule(
    "G11",
    "this layer is left out at random, and DDP waits for its gradients: the second step raises",
    "pass find_unused_parameters=True, with the reason in a comment",
)
def left_out_at_random(module: Module) -> Iterator[ast.AST]:
    if not _waits_for_all(module.program):
        return
    for function in module.functions.get("forward", []):
        for node in module.below(function):
            if isinstance(node, ast.If) and matches(node.test, r"random\(\)|rand\(|uniform\("):
                loop = module.loop(node)
                if isinstance(loop, ast.For) and isinstance(node.body[-1], ast.Continue):
                    if matches(loop.iter, r"self\.\w*(layer|block)"):
                        yield node
