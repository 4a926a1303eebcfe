"""Strict JAX, derandomised properties, and where the real data sets are."""

import gc
import os
import sys
import threading
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "Agg")
# Compiled programs are kept from run to run, and processes that tests start find them too
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".jax-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Where each operation of a program was written is not noted: that takes a share of the time
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

# Their sources, too, are compiled once
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import hypothesis
import jax
import numpy as np
import pytest
from jax._src import compiler, core
from jax._src.interpreters import mlir

sys.dont_write_bytecode = False  # what pytest makes of assertions is kept from run to run
jax.config.update("jax_numpy_rank_promotion", "raise")
hypothesis.settings.register_profile(
    "derandomised",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],  # a busy machine is no fault
)
hypothesis.settings.load_profile("derandomised")


# folders and files, besides what is marked `optimised`; test_faults compares with other processes
AS_USERS_DO = {"parity", "test_faults.py"}
FULL = "PEERWISE_FULL" in os.environ  # of `make full`


def _known(option):
    """Whether this version of XLA has an option."""
    try:
        jax.jit(lambda x: x).lower(1.0).compile(compiler_options=dict([option]))
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError):
        return False
    return True


QUICKLY = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
}
QUICKLY = dict(filter(_known, QUICKLY.items()))
compile_options, optimised = compiler.get_compile_options, False


def _options(*args, env_options_overrides=None, **kwargs):
    quick = {} if optimised else QUICKLY
    return compile_options(
        *args, env_options_overrides={**quick, **(env_options_overrides or {})}, **kwargs
    )


compiler.get_compile_options = _options


def _copied(stage):
    """NumPy's arrays are handed over as they are; JAX would compile a program for every shape."""

    def put(x):
        return jax.device_put(x.copy()) if isinstance(x, np.ndarray) else stage(x)

    return put


if hasattr(core, "stage_p"):  # of JAX 0.10
    core.stage_p.def_impl(_copied(core.stage_p.impl))


def _kept(make, uses=100):
    """Contexts in which programs are written down, kept for some: making one takes milliseconds."""
    kept = threading.local()

    def context():
        kept.left = getattr(kept, "left", 0) - 1
        if kept.left < 0:
            kept.context, kept.left = make(), uses
        return kept.context

    return context


mlir.make_ir_context = _kept(mlir.make_ir_context)


def _as_users_do(item):
    """Whether bits of what users run are compared, so that a test compiles as they do."""
    mark = item.get_closest_marker("optimised")
    if mark:
        return all(mark.args)
    if item.get_closest_marker("bits"):
        return FULL
    return not AS_USERS_DO.isdisjoint(item.path.parts[-2:])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Compile quickly, which is most of the time, unless a test compiles as users do."""
    global optimised
    wanted = _as_users_do(item)
    if wanted != optimised:
        optimised = wanted
        jax.clear_caches()


# files that take longest, which begin first so that no process works alone in the end
LONG = (
    "learner/test_every_name.py",
    "papers/test_decdiff_paper.py",
    "peer/test_faults.py",
    "parity/test_runtimes.py",
    "estimators/test_decentralized_estimator.py",
    "estimators/test_calibrated_estimator.py",
    "methods/test_relay_gd.py",
    "methods/test_ba_bfl.py",
    "methods/test_diffusion_bound.py",
    "simulate/test_lanes.py",
    "channel/test_channel_laws.py",
    "methods/test_relaying.py",
    "methods/test_diffusion.py",
    "peer/test_parity.py",
    "methods/test_cvar_claim.py",
    "combine/test_barycenter_networks.py",
    "simulate/test_simulate.py",
)


def _thin(items):
    """Cases that a test's mark `some` does not name, or `long` names, are for `make full`."""
    for item in items:
        some, long = map(item.get_closest_marker, ("some", "long"))
        if some and not any(part in item.callspec.id for part in some.args):
            item.add_marker("full")
        if long and any(f"-{item.callspec.id}".endswith(f"-{end}") for end in long.args):
            item.add_marker("full")


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items):
    """By file, the longest first; in a file first those that compile quickly, then the others."""
    _thin(items)
    order = {}
    for path in dict.fromkeys(item.path for item in items):
        name = "/".join(path.parts[-2:])
        order[path] = LONG.index(name) if name in LONG else len(LONG), len(order)
    items.sort(key=lambda item: (*order[item.path], _as_users_do(item)))


def pytest_collection_finish():
    """What was imported stays; tracing makes so many objects that seeking garbage takes a tenth."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture
def usual_garbage():
    """Garbage is sought as often as in a user's process: for tests that measure memory."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


MAPS = 25_000  # pieces of memory; Linux lets a process have 65,530, and XLA crashes beyond


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Forget compiled programs now and then: each holds several pieces of memory."""
    yield
    try:
        with open("/proc/self/maps") as held:
            many = sum(1 for _ in held)
    except OSError:  # not Linux
        return
    if many > MAPS:
        jax.clear_caches()


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data sets; tests that need it are skipped where it is absent."""
    folder = os.environ.get("PEERWISE_DATA")
    if not folder or not os.path.isdir(folder):
        pytest.skip("PEERWISE_DATA names no folder of data sets")
    return folder
