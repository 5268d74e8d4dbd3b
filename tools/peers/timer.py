# SPDX-License-Identifier: Apache-2.0
"""mage_bench's protocol around operations that Python enqueues: its sweep, delay, events, streams, scratch and graph
instances through libmage_launch.so. The samplers follow bench/sampler_event_cold.cpp and bench/sampler_graph.cpp."""

import ctypes
import functools
import random
import statistics
import time
from pathlib import Path

FLOOR_SAMPLES = {"event_cold": 10, "graph": 5}
SETTLE_TOLERANCE = 0.01
SETTLE_FIRST_S = 0.5
SETTLE_S = 0.05

_VOID = ctypes.c_void_p
_OUT_DOUBLE = ctypes.POINTER(ctypes.c_double)
_OUT_INT = ctypes.POINTER(ctypes.c_int)
_SIGNATURES = {
    "mage_launch_open": (_VOID, ctypes.c_char_p, ctypes.POINTER(_VOID), ctypes.c_int),
    "mage_launch_operands": (ctypes.c_char_p, ctypes.c_char_p),
    "mage_launch_run": (ctypes.c_int, _VOID, _VOID),
    "mage_launch_close": (None, _VOID),
    "mage_launch_error": (ctypes.c_char_p,),
    "mage_timer_open": (ctypes.c_int, ctypes.c_int, _OUT_DOUBLE),
    "mage_timer_round": (ctypes.c_int, ctypes.c_int, _OUT_INT, ctypes.POINTER(_VOID)),
    "mage_timer_begin": (ctypes.c_int, ctypes.c_double, ctypes.c_int),
    "mage_timer_end": (ctypes.c_int, _OUT_DOUBLE, _OUT_INT),
    "mage_timer_sweep": (ctypes.c_int,),
    "mage_timer_place_scratch": (ctypes.c_int, ctypes.c_uint64),
    "mage_timer_scratch_offsets": (ctypes.c_char_p,),
    "mage_timer_empty": (ctypes.c_int,),
    "mage_timer_clock": (ctypes.c_int, _OUT_DOUBLE),
    "mage_timer_graph": (_VOID, _VOID, _OUT_INT, _OUT_INT),
    "mage_timer_graph_replay": (ctypes.c_int, _VOID),
    "mage_timer_graph_close": (None, _VOID),
}


class Library:
    """libmage_launch.so; what fails there is a RuntimeError here."""

    def __init__(self, path: Path):
        library = ctypes.CDLL(str(path))
        for name, (result, *arguments) in _SIGNATURES.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise OSError(f"it has no {name}, so it is of another version than this tool") from None
            function.restype, function.argtypes = result, arguments
        self.raw = library

    def error(self) -> RuntimeError:
        return RuntimeError(self.raw.mage_launch_error().decode())

    def call(self, name: str, *arguments) -> None:
        if getattr(self.raw, name)(*arguments):
            raise self.error()


class Timer:
    """The device's side of a span; holds the clock that rounds settle to."""

    def __init__(self, library: Library):
        self.library = library
        peak = ctypes.c_double()
        library.call("mage_timer_open", 0, peak)
        self.peak_gbytes_per_s = peak.value or None
        self.stream, self.stream_index = 0, 0
        self.best_mhz = 0.0

    def round(self, number: int) -> int:
        """Changes to the stream of that round, and returns it as an integer."""
        index, stream = ctypes.c_int(), _VOID()
        self.library.call("mage_timer_round", number, index, stream)
        self.stream, self.stream_index = stream.value, index.value
        return self.stream

    def begin(self, delay_us: float, cold: bool) -> None:
        self.library.call("mage_timer_begin", delay_us, int(cold))

    def end(self) -> tuple[float, bool]:
        span, held = ctypes.c_double(), ctypes.c_int()
        self.library.call("mage_timer_end", span, held)
        return round(span.value, 3), bool(held.value)  # the clock's step is tens of nanoseconds

    def sweep(self) -> None:
        self.library.call("mage_timer_sweep")

    def place_scratch(self, seed: int) -> None:
        """Draws anew where the scratch of the launches lies that are opened next."""
        self.library.call("mage_timer_place_scratch", seed)

    def scratch_offsets(self) -> list[int]:
        """Of each piece since place_scratch, bytes from the beginning of the arena."""
        text = self.library.raw.mage_timer_scratch_offsets()
        if text is None:
            raise self.library.error()
        return [int(offset) for offset in text.split()]

    def empty(self) -> None:
        self.library.call("mage_timer_empty")

    def clock_mhz(self) -> float | None:
        mhz = ctypes.c_double()
        self.library.call("mage_timer_clock", mhz)
        self.best_mhz = max(self.best_mhz, mhz.value)
        return mhz.value or None

    def settle(self) -> bool:
        """Spins until the clock is where it was at best; the first time, as long as an idle one takes to rise."""
        first = self.best_mhz == 0
        begin = time.perf_counter()
        while True:
            mhz = self.clock_mhz()
            if mhz is None or (not first and mhz >= self.best_mhz * (1 - SETTLE_TOLERANCE)):
                return True
            if time.perf_counter() - begin > (SETTLE_FIRST_S if first else SETTLE_S):
                return first


def span_of(timer: Timer, delay_us: float, body, cold: bool = False) -> tuple[float, bool]:
    timer.begin(delay_us, cold)
    body()
    return timer.end()


def pilot_delay_us(timer: Timer, body) -> float:
    """A delay that covers enqueueing, with room to spare: Python takes longer than a launch from C++."""
    slowest = 0.0
    for i in range(4):
        timer.begin(0, False)
        begin = time.perf_counter()
        body()
        enqueue_us = (time.perf_counter() - begin) * 1e6
        timer.end()
        if i > 0:  # the first call loads modules and is no measure of the next
            slowest = max(slowest, enqueue_us)
    return delay_for(slowest)


def delay_for(enqueue_us: float) -> float:
    return min(max(4 * enqueue_us + 30, 60), 4000)


def pilot_span_us(timer: Timer, body) -> float:
    delay_us = pilot_delay_us(timer, body)
    return statistics.median(span_of(timer, delay_us, body)[0] for _ in range(3))


def graph_operations(operation_us: float) -> int:
    """How many operations the long graph has, as bench/sampler_graph.cpp has it."""
    operation_us = max(operation_us, 0.1)
    fewest = 3 if 3 * operation_us <= 5000 else 2
    return min(max(round(400 / operation_us), fewest), 100)


def per_operation_us(one_us: float, many_us: float, operations: int) -> float:
    return round((many_us - one_us) / (operations - 1), 6)


class Samples:
    """Raw samples of one benchmark in one round."""

    def __init__(self):
        self.us, self.parts, self.figures, self.gate_missed = [], {}, {}, 0


class EventColdSampler:
    warm = False

    def __init__(self, timer: Timer, body):
        self.timer, self.body = timer, body
        body()
        self.delay_us = pilot_delay_us(timer, body)

    def open(self) -> None:
        for _ in range(2):  # on a stream or in a pool that is new to it, the first call allocates
            self.body()

    def results(self):
        """Where those of the samples lie: in steady state the allocator gives the same memory again."""
        return self.body()

    def sample(self, out: Samples) -> None:
        self.body()
        us, held = span_of(self.timer, self.delay_us, self.body, cold=True)
        out.us.append(us)
        out.figures["delay_us"] = round(self.delay_us, 3)
        out.gate_missed += not held


class GraphSampler:
    """Of two graphs, `one` operation and `many`. Each group of samples has graphs of its own, captured for it."""

    warm = True

    def __init__(self, timer: Timer, capture, operations: int):
        self.timer, self.capture, self.operations = timer, capture, operations
        self.one = self.many = None
        self.open()
        self.delay_us = pilot_delay_us(timer, self.many.replay)

    def open(self) -> None:
        one, many = self.capture(1), self.capture(self.operations)
        if one.kernel_nodes + one.other_nodes == 0:
            raise RuntimeError("the captured graph is empty: the operation did not use the stream that it was given")
        wanted = [self.operations * nodes for nodes in (one.kernel_nodes, one.other_nodes)]
        if [many.kernel_nodes, many.other_nodes] != wanted:
            raise RuntimeError(
                f"a graph of {self.operations} operations has {many.kernel_nodes} kernel nodes, a graph of one has "
                f"{one.kernel_nodes}: the operation is not the same on every call"
            )
        self.one, self.many = one, many  # the old ones go only now, or they would hand on their places
        for graph in (one, many):
            graph.replay()

    def results(self):
        return self.many.result

    def sample(self, out: Samples) -> None:
        self.one.replay()
        one_us, one_held = span_of(self.timer, self.delay_us, self.one.replay)
        many_us, many_held = span_of(self.timer, self.delay_us, self.many.replay)
        out.us.append(per_operation_us(one_us, many_us, self.operations))
        out.parts.setdefault("replay_latency_us", []).append(one_us)
        out.parts.setdefault("span_k_us", []).append(many_us)
        out.figures["operations_k"] = self.operations
        out.figures["kernel_nodes"] = self.one.kernel_nodes
        out.figures["other_nodes"] = self.one.other_nodes
        out.gate_missed += not (one_held and many_held)


def warm_up(timer: Timer, sampler) -> None:
    """As bench/gate.cpp has it: samples of a warm mode see an L2 that only the operation filled."""
    if sampler.warm:
        timer.sweep()
        sampler.sample(Samples())


def take(timer: Timer, sampler, count: int, out: Samples) -> None:
    """A group of samples, once it is open."""
    warm_up(timer, sampler)
    for _ in range(count):
        sampler.sample(out)


class GraphInstance:
    """An instance of a graph that PyTorch captured and keeps; `result` is what its last operation writes."""

    def __init__(self, timer: Timer, captured, result):
        self.library, self.captured, self.result = timer.library, captured, result
        kernels, others = ctypes.c_int(), ctypes.c_int()
        self.handle = self.library.raw.mage_timer_graph(captured.raw_cuda_graph(), kernels, others)
        if not self.handle:
            raise self.library.error()
        self.kernel_nodes, self.other_nodes = kernels.value, others.value

    def replay(self) -> None:
        self.library.call("mage_timer_graph_replay", self.handle)

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.raw.mage_timer_graph_close(self.handle)


@functools.cache
def williams(treatments: int) -> tuple[tuple[int, ...], ...]:
    """Orders in which each treatment follows each other one equally often; as bench/plan_order.cpp has it."""
    if treatments == 1:
        return ((0,),)
    zigzag = [0, *((i + 1) // 2 if i % 2 else treatments - (i + 1) // 2 for i in range(1, treatments))]
    rows = [tuple((treatment + shift) % treatments for treatment in zigzag) for shift in range(treatments)]
    return tuple(rows + [row[::-1] for row in rows] if treatments % 2 else rows)


def default_rounds(treatments: int, at_least: int = 10) -> int:
    """The fewest that are no fewer than that and whole designs."""
    design = len(williams(treatments))
    return -(-at_least // design) * design


def balanced_order(treatments: int, rounds: int, source: random.Random) -> list[list[int]]:
    order = []
    while len(order) < rounds:
        design, label = list(williams(treatments)), list(range(treatments))
        source.shuffle(label)
        source.shuffle(design)
        order += [[label[treatment] for treatment in row] for row in design]
    return order[:rounds]


def steps_of(treatments: int, modes: list[str], rounds: int, seed: str) -> list[tuple[int, str, int]]:
    """(round, mode, treatment) in the order of execution: round by round, its modes shuffled."""
    source = random.Random(seed)
    orders = {mode: balanced_order(treatments, rounds, source) for mode in modes}
    steps = []
    for number in range(rounds):
        for mode in source.sample(modes, len(modes)):
            steps += [(number, mode, treatment) for treatment in orders[mode][number]]
    return steps
