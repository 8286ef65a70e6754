"""GPU memory comes back in the right order, failures are warnings, and nothing is initialised on the way."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import sys
import types
import unittest
import warnings
from typing import Any, Dict, Iterator, List, Optional
from unittest import mock

import gpulane
from gpulane import _cleanup
from gpulane._cleanup import _context, _ipython, _nvml
from gpulane._cleanup._holders import holds_gpu_memory

from .fake_libraries import Array, FakeDriver, FakeNvml, Machine, Tensor, fake_cupy, fake_jax, fake_torch

GB = 1_000_000_000
DEVICES = [_context.Device(0, "0000:00:00.0")]


@contextlib.contextmanager
def libraries(
    *groups: Dict[str, types.ModuleType],
    devices: Optional[List[_context.Device]] = DEVICES,
    machine: Optional[Machine] = None,
) -> Iterator[None]:
    """With these modules imported and no others of their kind; the driver says what the machine knows."""
    real = ("torch", "cupy", "jax", "numpy", "IPython")
    modules = {name: module for name, module in sys.modules.items() if name.partition(".")[0] not in real}
    for group in groups:
        modules.update(group)

    def read(buses: Any) -> Optional[_nvml.Reading]:
        return None if machine is None else _nvml.Reading(machine.used(), 10 * GB)

    with mock.patch.dict(sys.modules, modules, clear=True), mock.patch.object(
        _context, "active", lambda: devices
    ), mock.patch.object(_nvml, "read", read):
        yield


class Cleanup(unittest.TestCase):
    def setUp(self) -> None:
        _cleanup._calls.clear()
        self.machine = Machine()

    def clean(self, **options: Any) -> gpulane._cleanup.Freed:
        return gpulane.cleanup(quiet=True, **options)

    def test_without_any_library_there_is_nothing_to_do(self) -> None:
        with libraries():
            freed = self.clean()
        self.assertEqual((freed.freed, freed.libraries, freed.failures), (0, (), ()))
        self.assertIn("no GPU memory to free", str(freed))

    def test_torch_gives_back_caches_workspaces_and_graphs(self) -> None:
        self.machine.move(torch_live=GB, torch_cached=2 * GB, torch_workspaces=GB, torch_graphs=GB, torch_pinned=7)
        with libraries(fake_torch(self.machine)):
            freed = self.clean()
        self.assertEqual((freed.freed, freed.held, freed.pinned), (4 * GB, GB, 7))
        self.assertEqual(freed.by_library, {"torch": 4 * GB})

    def test_cupy_gives_back_plans_and_pools(self) -> None:
        self.machine.move(cupy_live=GB, cupy_cached=GB, cupy_plans=GB)
        with libraries(fake_cupy(self.machine)):
            freed = self.clean()
        self.assertEqual((freed.freed, freed.held), (2 * GB, GB))
        self.assertIn("pinned.free_all_blocks", self.machine.calls)

    def test_one_pool_is_not_counted_twice(self) -> None:
        self.machine.move(cupy_live=GB)
        with libraries(fake_cupy(self.machine)):
            self.assertEqual(self.clean().held, GB)

    def test_a_pool_put_in_the_default_ones_place_is_freed_too(self) -> None:
        modules = fake_cupy(self.machine)
        other = mock.Mock(spec=["malloc", "free_all_blocks", "total_bytes"])
        other.total_bytes.side_effect = [3 * GB, GB]
        chosen = types.MethodType(lambda self, size: None, other)
        modules["cupy"].cuda.get_allocator = lambda: chosen  # type: ignore[attr-defined]
        with libraries(modules):
            freed = self.clean()
        other.free_all_blocks.assert_called_once_with()
        self.assertEqual(freed.freed, 2 * GB)

    def test_what_keeps_memory_goes_before_what_gives_it_back(self) -> None:
        with libraries(fake_torch(self.machine), fake_cupy(self.machine), fake_jax(self.machine)), mock.patch(
            "gc.collect", self.machine.call("gc.collect")
        ):
            self.clean()
        calls = self.machine.calls
        for first, then in (
            ("dynamo.reset", "gc.collect"),
            ("plans.clear", "gc.collect"),
            ("clear_caches", "gc.collect"),
            ("gc.collect", "torch.synchronize"),
            ("torch.synchronize", "clear_workspaces"),
            ("clear_workspaces", "empty_cache"),
            ("ipc_collect", "empty_cache"),
            ("empty_cache", "host_empty_cache"),
            ("cupy.synchronize", "free_all_blocks"),
        ):
            with self.subTest(first=first, then=then):
                self.assertLess(calls.index(first), calls.index(then))

    def test_every_step_that_fails_is_a_warning_and_the_others_follow(self) -> None:
        steps = ["dynamo.reset", "torch.synchronize", "clear_workspaces", "ipc_collect", "host_empty_cache"]
        steps += ["plans.clear", "cupy.synchronize", "pinned.free_all_blocks", "clear_caches"]
        self.machine.broken.update(steps)
        self.machine.move(torch_cached=GB, cupy_cached=GB)
        with libraries(fake_torch(self.machine), fake_cupy(self.machine), fake_jax(self.machine)):
            with self.assertWarns(RuntimeWarning) as warned:
                freed = self.clean()
        self.assertEqual(freed.freed, 2 * GB)
        said = "\n".join(str(each.message) for each in warned.warnings)
        for step in steps:
            with self.subTest(step=step):
                self.assertIn(f"CUDA error in {step}", said)
                self.assertTrue(any(step in failure for failure in freed.failures))

    def test_nothing_is_raised_where_warnings_are_errors_and_all_is_broken(self) -> None:
        self.machine.broken.update(["empty_cache", "memory_reserved", "free_all_blocks", "local_devices"])
        with libraries(fake_torch(self.machine), fake_cupy(self.machine), fake_jax(self.machine)):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertTrue(self.clean().failures)

    def test_cuda_that_nobody_used_is_left_alone(self) -> None:
        modules = [fake_torch(self.machine, initialized=False), fake_cupy(self.machine)]
        for devices in ([], None):
            self.machine.calls.clear()
            with self.subTest(devices=devices), libraries(*modules, devices=devices):
                self.assertEqual(self.clean().libraries, ())
                self.assertEqual(self.machine.calls, ["dynamo.reset"])

    def test_clients_of_jax_are_not_brought_up(self) -> None:
        with libraries(fake_jax(self.machine, is_up=False)):
            self.assertEqual(self.clean(reset_jax=True).libraries, ())
        self.assertEqual(self.machine.calls, [])

    def test_jax_on_the_cpu_is_left_alone(self) -> None:
        with libraries(fake_jax(self.machine, platform="cpu")):
            self.assertEqual(self.clean(reset_jax=True).libraries, ())
        self.assertNotIn("clear_backends", self.machine.calls)

    def test_jax_gives_its_pool_back_when_told_to(self) -> None:
        self.machine.jax_pool = 5 * GB
        with libraries(fake_jax(self.machine)):
            kept = self.clean()
            gone = self.clean(reset_jax=True)
        self.assertEqual((kept.freed, kept.held), (0, 5 * GB))
        self.assertEqual((gone.freed, gone.held), (5 * GB, 0))

    def test_jax_keeps_its_pool_while_arrays_live(self) -> None:
        self.machine.jax_pool = 5 * GB
        self.machine.jax_arrays = ["one", "two"]
        with libraries(fake_jax(self.machine)), self.assertWarnsRegex(RuntimeWarning, "2 of its arrays are alive"):
            freed = self.clean(reset_jax=True)
        self.assertEqual((freed.freed, freed.held), (0, 5 * GB))

    def test_each_gpu_with_a_context_is_cleaned_and_no_other(self) -> None:
        two = [_context.Device(0, "a"), _context.Device(3, "b")]
        with libraries(fake_cupy(self.machine), devices=two):
            self.clean()
        entered = {call for call in self.machine.calls if call.startswith("enter")}
        self.assertEqual(entered, {"enter 0", "enter 3"})

    def test_the_context_is_what_the_driver_sees_beyond_the_libraries(self) -> None:
        self.machine.move(torch_live=GB, torch_cached=2 * GB, cupy_cached=GB, context=620_000_000)
        with libraries(fake_torch(self.machine), fake_cupy(self.machine), machine=self.machine):
            freed = self.clean()
        self.assertEqual((freed.freed, freed.context, freed.held), (3 * GB, 620_000_000, GB))

    def test_a_line_says_it_all(self) -> None:
        self.machine.move(torch_cached=300_000_000, cupy_cached=2_910_000_000, context=620_000_000)
        with libraries(fake_torch(self.machine), fake_cupy(self.machine), machine=self.machine):
            freed = self.clean()
        self.assertEqual(
            str(freed),
            "GPU memory freed: 3.21 GB (torch 0.3, CuPy 2.9), 0.62 GB held by the CUDA context until the process ends",
        )

    def test_what_is_still_in_use_is_said(self) -> None:
        self.machine.move(torch_live=GB)
        with libraries(fake_torch(self.machine)):
            self.assertEqual(str(self.clean()), "GPU memory freed: 0.0 MB, still in use: torch 1.00 GB")

    def test_where_the_driver_knows_no_processes_the_whole_gpu_is_said(self) -> None:
        with libraries(fake_torch(self.machine)), mock.patch.object(
            _nvml, "read", lambda buses: _nvml.Reading(None, 4 * GB)
        ):
            freed = self.clean()
        self.assertEqual((freed.measured, freed.context, freed.device), (None, None, 4 * GB))
        self.assertIn("4.00 GB of the GPU in use by all processes together", str(freed))

    def test_a_figure_that_cannot_be_ours_is_not_believed(self) -> None:
        self.machine.move(torch_live=GB)
        with libraries(fake_torch(self.machine)), mock.patch.object(
            _nvml, "read", lambda buses: _nvml.Reading(GB // 2, 4 * GB)
        ):
            freed = self.clean()
        self.assertEqual((freed.measured, freed.context, freed.device), (None, None, 4 * GB))

    def test_it_is_printed_unless_quiet(self) -> None:
        with libraries(), contextlib.redirect_stderr(io.StringIO()) as said:
            gpulane.cleanup(quiet=True)
            self.assertEqual(said.getvalue(), "")
            gpulane.cleanup()
        self.assertIn("gpulane: no GPU memory to free", said.getvalue())

    def test_a_loop_is_warned_of(self) -> None:
        with libraries(), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for _ in range(4):
                self.clean()
            self.assertEqual(warned, [])
            self.clean()
        self.assertIn("Call it once, after the loop", str(warned[0].message))
        self.assertEqual(warned[0].filename, __file__)

    def test_now_and_then_is_no_loop(self) -> None:
        with libraries(), mock.patch("time.monotonic", side_effect=[minute * 60.0 for minute in range(9)]):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for _ in range(9):
                    self.clean()
        self.assertEqual([len(calls) for calls in _cleanup._calls.values()], [5])


class Driver(unittest.TestCase):
    def test_only_gpus_with_a_context_are_named(self) -> None:
        with mock.patch("ctypes.CDLL", lambda name: FakeDriver([False, True, False])):
            self.assertEqual(_context.active(), [_context.Device(1, "0000:01:00.0")])

    def test_a_driver_nobody_initialised_has_none(self) -> None:
        with mock.patch("ctypes.CDLL", lambda name: FakeDriver([True], initialized=False)):
            self.assertEqual(_context.active(), [])

    def test_without_a_driver_nothing_is_known(self) -> None:
        with mock.patch("ctypes.CDLL", side_effect=OSError("no such file")):
            self.assertIsNone(_context.active())

    def test_nvml_tells_this_process_from_the_others(self) -> None:
        nvml = FakeNvml({1: GB, os.getpid(): 2 * GB}, device=3 * GB)
        with mock.patch("ctypes.CDLL", lambda name: nvml):
            self.assertEqual(_nvml.read(["0000:01:00.0"]), _nvml.Reading(2 * GB, 3 * GB))
            self.assertEqual(_nvml.read(["a", "b"]), _nvml.Reading(4 * GB, 6 * GB))
        self.assertEqual(nvml.open, 0)

    def test_nvml_with_more_processes_than_expected(self) -> None:
        processes = {10_000_000 + number: 1 for number in range(200)}
        nvml = FakeNvml({**processes, os.getpid(): GB}, device=3 * GB)
        with mock.patch("ctypes.CDLL", lambda name: nvml):
            self.assertEqual(_nvml.read(["a"]), _nvml.Reading(GB, 3 * GB))

    def test_nvml_that_does_not_know_us(self) -> None:
        for processes in ({1: GB}, {os.getpid(): _nvml.NOT_AVAILABLE}, {}):
            nvml = mock.Mock(return_value=FakeNvml(processes, GB))
            with self.subTest(processes=processes), mock.patch("ctypes.CDLL", nvml):
                self.assertEqual(_nvml.read(["a"]), _nvml.Reading(None, GB))

    def test_nvml_that_is_missing_or_refuses(self) -> None:
        with mock.patch("ctypes.CDLL", side_effect=OSError("no such file")):
            self.assertIsNone(_nvml.read(["a"]))
        with mock.patch("ctypes.CDLL", lambda name: FakeNvml({}, GB, answer=9)):
            self.assertIsNone(_nvml.read(["a"]))

    def test_structures_are_laid_out_as_in_the_header(self) -> None:
        self.assertEqual(ctypes.sizeof(_nvml._Process), 24)
        self.assertEqual(ctypes.sizeof(_nvml._Memory), 24)


class Holder:
    """Any object of a user's."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


class Holders(unittest.TestCase):
    def test_arrays_on_a_gpu_and_what_leads_to_them(self) -> None:
        for value in (Tensor(True), Array(), [Tensor(True)], {"a": (1, Array())}, Holder({"x": [Tensor(True)]})):
            with self.subTest(value=value):
                self.assertTrue(holds_gpu_memory(value))

    def test_everything_else(self) -> None:
        loop: List[Any] = [1]
        loop.append(loop)
        for value in (None, 1, "text", Tensor(False), [1, 2], {"a": "b"}, Holder(3), loop, Tensor, os, len, lambda: 1):
            with self.subTest(value=value):
                self.assertFalse(holds_gpu_memory(value))


class Shell:
    """IPython's shell, as far as it keeps things."""

    def __init__(self) -> None:
        on_gpu, plain = Tensor(True), [1, 2]
        self.user_ns: Dict[str, Any] = {
            "_oh": {1: on_gpu, 2: plain},
            "_1": on_gpu,
            "_2": plain,
            "_": on_gpu,
            "__": plain,
        }
        self.user_ns.update(___="mine", mine=on_gpu, _i1="source")
        self.displayhook = types.SimpleNamespace(_=on_gpu, __=plain, ___="")
        self.last_execution_result = types.SimpleNamespace(result=on_gpu, error_in_exec=None, error_before_exec=None)
        self.InteractiveTB = types.SimpleNamespace(tb="a traceback", etype="kind", evalue="value")


class IPython(unittest.TestCase):
    def setUp(self) -> None:
        self.shell = Shell()
        module = types.ModuleType("IPython")
        module.get_ipython = lambda: self.shell  # type: ignore[attr-defined]
        patch = mock.patch.dict(sys.modules, {"IPython": module})
        patch.start()
        self.addCleanup(patch.stop)

    def test_outputs_on_the_gpu_are_dropped_and_others_kept(self) -> None:
        failures: List[str] = []
        _ipython.forget(failures)
        names = self.shell.user_ns
        self.assertEqual(names["_oh"], {2: [1, 2]})
        self.assertNotIn("_1", names)
        self.assertEqual((names["_2"], names["_"], names["__"], names["_i1"]), ([1, 2], "", [1, 2], "source"))
        self.assertIsNone(self.shell.last_execution_result.result)
        self.assertEqual(failures, [])

    def test_variables_of_the_user_stay(self) -> None:
        mine = Tensor(True)
        self.shell.user_ns.update(_=mine)  # Assigned by hand: IPython's own is another object.
        _ipython.forget([])
        self.assertIs(self.shell.user_ns["_"], mine)
        self.assertTrue(self.shell.user_ns["mine"].is_cuda)

    def test_the_last_error_is_dropped_with_its_variables(self) -> None:
        error = fail_with_a_tensor()
        frame = error.__traceback__.tb_next.tb_frame  # type: ignore[union-attr]
        self.assertIn("held", frame.f_locals)
        with mock.patch.multiple(sys, create=True, last_value=error, last_traceback=error.__traceback__):
            _ipython.forget([])
            self.assertFalse(hasattr(sys, "last_value"))
            self.assertFalse(hasattr(sys, "last_traceback"))
            sys.last_value, sys.last_traceback = error, None  # For the patch to take away.
        self.assertEqual(dict(frame.f_locals), {})
        self.assertIsNone(self.shell.InteractiveTB.tb)

    def test_a_strange_shell_is_a_warning(self) -> None:
        del self.shell.user_ns
        failures: List[str] = []
        _ipython.forget(failures)
        self.assertEqual(len(failures), 1)


def fail_with_a_tensor() -> BaseException:
    def inner() -> None:
        held = Tensor(True)
        raise ValueError(f"with {held}")

    try:
        inner()
    except ValueError as error:
        return error
    raise AssertionError("it did not fail")


if __name__ == "__main__":
    unittest.main()
