"""The C interface of build/libSTAGE.so (common/fa.h) for PyTorch tensors."""
import csv
import ctypes
import pathlib
import subprocess

import torch

FORWARD, BACKWARD = 0, 1
DEVICES = {"cpu": 0, "gpu": 1}
DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p)] + [
        (name, ctypes.c_int64) for name in ("stride_batch", "stride_head", "stride_row")]


class Descale(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p)] + [
        (name, ctypes.c_int64) for name in ("stride_batch", "stride_head", "block_rows")]


class Problem(ctypes.Structure):
    """fa_problem_t, field by field; the size is checked when a library is loaded."""
    _fields_ = (
        [(name, ctypes.c_int64) for name in
         ("batch", "heads_q", "heads_kv", "seq_q", "seq_k", "head_dim", "head_dim_v")]
        + [("dtype", ctypes.c_int), ("dtype_out", ctypes.c_int),
           ("causal", ctypes.c_bool), ("scale", ctypes.c_float), ("kv_len", ctypes.c_void_p)]
        + [(name, Tensor) for name in ("q", "k", "v", "o")]
        + [("lse", ctypes.c_void_p)]
        + [(name, Tensor) for name in ("d_o", "dq", "dk", "dv")]
        + [(name, Descale) for name in ("descale_q", "descale_k", "descale_v")]
        + [("deterministic", ctypes.c_bool), ("splits", ctypes.c_int), ("workspace", ctypes.c_void_p),
           ("workspace_size", ctypes.c_size_t), ("stream", ctypes.c_void_p)])


class Reason(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 256)]


class Refused(Exception):
    """A step does not offer this problem, or its workspace does not fit; the text says why."""


def tensor(t):
    """[batch][heads][rows][dim] with any strides; the last dimension is contiguous."""
    assert t.stride(3) == 1
    return Tensor(t.data_ptr(), t.stride(0), t.stride(1), t.stride(2))


class SharedObject:
    """One stage."""

    def __init__(self, build, stage):
        self.stage = stage
        self.lib = ctypes.CDLL(str(pathlib.Path(build) / f"lib{stage}.so"))
        self.lib.fa_problem_size.restype = ctypes.c_size_t
        if self.lib.fa_problem_size() != ctypes.sizeof(Problem):
            raise SystemExit(f"lib{stage}.so: fa_problem_t has {self.lib.fa_problem_size()} bytes, the copy in "
                             f"tests/peers/fa.py has {ctypes.sizeof(Problem)}: bring that up to date")
        self.lib.fa_workspace_size.restype = ctypes.c_size_t

    def supports(self, problem, step, which, device):
        why = Reason()
        if self.lib.fa_supports(ctypes.byref(problem), step.encode(), which, DEVICES[device],
                                ctypes.byref(why)):
            raise Refused(why.text.decode())

    def workspace(self, problem, step, which, device):
        return self.lib.fa_workspace_size(ctypes.byref(problem), step.encode(), which, DEVICES[device])

    def run(self, problem, step, which, device):
        why = Reason()
        call = self.lib.fa_forward if which == FORWARD else self.lib.fa_backward
        if call(ctypes.byref(problem), step.encode(), DEVICES[device], ctypes.byref(why)):
            raise RuntimeError(why.text.decode())


def steps(build, device):
    """(stage, step) of all that is built for this device, in the table's order: `STAGE --list --csv -`."""
    found = []
    for library in sorted(pathlib.Path(build).glob("lib0[1-6]_*.so")):
        stage = library.stem[3:]
        text = subprocess.run([str(pathlib.Path(build) / stage), "--list", "--csv", "-"], check=True,
                              capture_output=True, text=True).stdout
        for row in csv.DictReader(text.splitlines()):
            if row["device"] == device and (stage, row["step"]) not in found:
                found.append((stage, row["step"]))
    return found
