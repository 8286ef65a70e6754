"""Stand-ins for torch, CuPy, JAX and the CUDA driver whose counters behave, and which note what is asked of them."""

from __future__ import annotations

import types
from typing import Any, Callable, Dict, List, Optional, Set


class Machine:
    """One GPU as its libraries see it: what they hold of it, and what was called, in order."""

    def __init__(self) -> None:
        self.calls: List[str] = []
        self.broken: Set[str] = set()
        """Calls that raise."""
        self.torch_live = 0
        self.torch_cached = 0
        self.torch_workspaces = 0
        self.torch_graphs = 0
        self.torch_pinned = 0
        self.cupy_live = 0
        self.cupy_cached = 0
        self.cupy_plans = 0
        self.jax_pool = 0
        self.jax_arrays: List[str] = []
        self.context = 0

    def used(self) -> int:
        """What the driver would say of this process."""
        return self.context + self.torch_reserved() + self.cupy_total() + self.jax_pool

    def torch_reserved(self) -> int:
        return self.torch_live + self.torch_cached + self.torch_workspaces + self.torch_graphs

    def cupy_total(self) -> int:
        return self.cupy_live + self.cupy_cached + self.cupy_plans

    def call(self, name: str, act: Optional[Callable[[], Any]] = None) -> Callable[..., Any]:
        """A function of a library: noted, then broken or done."""

        def run(*_: Any) -> Any:
            self.calls.append(name)
            if name in self.broken:
                raise RuntimeError(f"CUDA error in {name}")
            return act() if act is not None else None

        return run

    def move(self, **changes: int) -> None:
        for name, change in changes.items():
            setattr(self, name, getattr(self, name) + change)


class Tensor:
    """A tensor that says where it is."""

    def __init__(self, is_cuda: bool) -> None:
        self.is_cuda = is_cuda

    is_cuda = False


class Array:
    """A CuPy array."""

    __cuda_array_interface__: Dict[str, Any] = {}


def fake_torch(machine: Machine, initialized: bool = True) -> Dict[str, types.ModuleType]:
    """What `sys.modules` holds after `import torch` and a `torch.compile`."""
    torch, dynamo, cuda = (types.ModuleType(name) for name in ("torch", "torch._dynamo", "torch.cuda"))

    def empty_cache() -> None:
        machine.torch_cached = 0

    def clear_workspaces() -> None:
        # They are the caching allocator's: free for it now, and with the GPU only after it was emptied.
        machine.move(torch_cached=machine.torch_workspaces, torch_workspaces=-machine.torch_workspaces)

    def reset() -> None:
        machine.move(torch_cached=machine.torch_graphs, torch_graphs=-machine.torch_graphs)

    def empty_host_cache() -> None:
        machine.torch_pinned = 0

    dynamo.reset = machine.call("dynamo.reset", reset)  # type: ignore[attr-defined]
    contents = {
        "is_initialized": lambda: initialized,
        "device_count": lambda: 1,
        "memory_reserved": machine.call("memory_reserved", machine.torch_reserved),
        "synchronize": machine.call("torch.synchronize"),
        "ipc_collect": machine.call("ipc_collect"),
        "empty_cache": machine.call("empty_cache", empty_cache),
        "memory": types.SimpleNamespace(host_memory_stats=lambda: {"allocated_bytes.current": machine.torch_pinned}),
    }
    for name, value in contents.items():
        setattr(cuda, name, value)
    torch.cuda, torch._dynamo = cuda, dynamo  # type: ignore[attr-defined]
    torch._C = types.SimpleNamespace(  # type: ignore[attr-defined]
        _cuda_clearCublasWorkspaces=machine.call("clear_workspaces", clear_workspaces),
        _host_emptyCache=machine.call("host_empty_cache", empty_host_cache),
    )
    return {"torch": torch, "torch.cuda": cuda, "torch._dynamo": dynamo}


def fake_cupy(machine: Machine) -> Dict[str, types.ModuleType]:
    """What `sys.modules` holds after `import cupy`."""
    cupy = types.ModuleType("cupy")

    class Device:
        def __init__(self, ordinal: int = 0) -> None:
            self.ordinal = ordinal
            self.synchronize = machine.call("cupy.synchronize")

        def __enter__(self) -> None:
            machine.calls.append(f"enter {self.ordinal}")

        def __exit__(self, *_: Any) -> None:
            pass

    class Pool:
        def malloc(self, size: int) -> None:
            machine.cupy_live += size

        def total_bytes(self) -> int:
            return machine.cupy_total()

        def free_all_blocks(self) -> None:
            def act() -> None:
                machine.cupy_cached = 0

            machine.call("free_all_blocks", act)()

    def clear_plans() -> None:
        machine.move(cupy_cached=machine.cupy_plans, cupy_plans=-machine.cupy_plans)

    pool = Pool()
    plans = types.SimpleNamespace(clear=machine.call("plans.clear", clear_plans))
    pinned = types.SimpleNamespace(free_all_blocks=machine.call("pinned.free_all_blocks"))
    contents = {
        "cuda": types.SimpleNamespace(
            Device=Device, get_allocator=lambda: pool.malloc, runtime=types.SimpleNamespace(is_hip=False)
        ),
        "fft": types.SimpleNamespace(config=types.SimpleNamespace(get_plan_cache=lambda: plans)),
        "get_default_memory_pool": lambda: pool,
        "get_default_pinned_memory_pool": lambda: pinned,
    }
    for name, value in contents.items():
        setattr(cupy, name, value)
    return {"cupy": cupy}


def fake_jax(machine: Machine, platform: str = "gpu", is_up: bool = True) -> Dict[str, types.ModuleType]:
    """What `sys.modules` holds after `import jax` and a first array."""
    jax, bridge, extend, backend = (
        types.ModuleType(name) for name in ("jax", "jax._src.xla_bridge", "jax.extend", "jax.extend.backend")
    )
    bridge._backends = {platform: object()} if is_up else {}  # type: ignore[attr-defined]

    def clear_backends() -> None:
        machine.jax_pool = 0
        bridge._backends.clear()

    device = types.SimpleNamespace(platform=platform, memory_stats=lambda: {"pool_bytes": machine.jax_pool})
    contents = {
        "local_devices": machine.call("local_devices", lambda: [device]),
        "live_arrays": lambda: machine.jax_arrays,
        "clear_caches": machine.call("clear_caches"),
    }
    for name, value in contents.items():
        setattr(jax, name, value)
    backend.clear_backends = machine.call("clear_backends", clear_backends)  # type: ignore[attr-defined]
    jax.extend, extend.backend = extend, backend  # type: ignore[attr-defined]
    return {"jax": jax, "jax._src.xla_bridge": bridge, "jax.extend": extend, "jax.extend.backend": backend}


class FakeDriver:
    """`libcuda.so.1` as far as we ask it."""

    def __init__(self, contexts: List[bool], initialized: bool = True) -> None:
        self.contexts = contexts
        self.initialized = initialized

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.contexts)
        return 0 if self.initialized else 3

    def cuDevicePrimaryCtxGetState(self, ordinal: int, flags: Any, active: Any) -> int:
        active._obj.value = int(self.contexts[ordinal])
        return 0

    def cuDeviceGetPCIBusId(self, text: Any, length: int, ordinal: int) -> int:
        text.value = f"0000:0{ordinal}:00.0".encode()
        return 0


class FakeNvml:
    """`libnvidia-ml.so.1` with one GPU and these processes on it."""

    def __init__(self, processes: Dict[int, int], device: int, answer: int = 0) -> None:
        self.processes = processes
        self.device = device
        self.answer = answer
        self.open = 0

    def nvmlInit_v2(self) -> int:
        self.open += 1
        return self.answer

    def nvmlShutdown(self) -> int:
        self.open -= 1
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus: bytes, handle: Any) -> int:
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        memory._obj.used = self.device
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, listed: Any) -> int:
        room, count._obj.value = count._obj.value, len(self.processes)
        if room < len(self.processes):
            return 7
        for place, (pid, used) in zip(listed, self.processes.items()):
            place.pid, place.used = pid, used
        return 0
