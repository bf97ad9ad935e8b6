#!/usr/bin/env python3
"""Our steps beside what a user would pick instead: PyTorch's attention, in one process and one run.

    make bench-peers                                     this machine's GPU, or its CPU without one
    make bench-peers PEERS="--device cpu --shape 1,4,2048,64 --causal"

Every contender gets the same tensors. Its output is compared first; a wrong one is not timed. Each is run
untimed for a while and then timed; the contenders are interleaved in an order shuffled in each round,
because a GPU at its power cap changes speed with what ran before. Medians over the rounds are compared, and
only within this run. Exit status: 0, 1 a contender was wrong, 2 wrong usage, 3 nothing to compare.
"""
import argparse
import math
import random
import statistics
import sys

try:
    import torch
except ImportError:
    print(f"bench_peers needs PyTorch: {sys.executable} -m pip install torch", file=sys.stderr)
    sys.exit(3)

import contenders
import fa
import record

NAMES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# The lecture's workload on a GPU; on a CPU what two cores do in a few minutes.
SHAPES = {"gpu": ["64,16,1024,64"],
          "cpu": ["1,4,1024,64", "1,4,1024,128", "1,4,4096,64", "1,2,4096,128"]}


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", choices=["auto", "gpu", "cpu"], default="auto")
    p.add_argument("--shape", action="append", metavar="BATCH,HEADS,SEQ,DIM",
                   help="may be given several times; default: the lecture's workload (GPU), or "
                        + " and ".join(SHAPES["cpu"]) + " (CPU)")
    p.add_argument("--heads-kv", type=int, default=0, metavar="N", help="fewer key and value heads (GQA)")
    p.add_argument("--dtype", choices=sorted(NAMES), help="default: fp16 on a GPU, fp32 on a CPU")
    p.add_argument("--causal", action="store_true")
    p.add_argument("--only", default="", metavar="TEXT[,TEXT...]", help="contenders with one of these in their name")
    p.add_argument("--rounds", type=int, default=5, metavar="N", help="at least 3 (5)")
    p.add_argument("--untimed", type=float, default=40, metavar="MS", help="each contender and round (40)")
    p.add_argument("--timed", type=float, default=80, metavar="MS", help="each contender and round (80)")
    p.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads (all)")
    p.add_argument("--seed", type=int, default=1, metavar="N")
    p.add_argument("--build", default="build", metavar="DIR", help="where libSTAGE.so are (build)")
    p.add_argument("--results", default="notes/results", metavar="DIR",
                   help="raw rows are added to a CSV file there; empty: nowhere (notes/results)")
    o = p.parse_args()
    if o.rounds < 3 or o.untimed < 0 or o.timed <= 0:
        p.error("--rounds must be at least 3, --untimed at least 0, --timed more than 0")
    if o.device == "gpu" and not torch.cuda.is_available():
        print("bench_peers: PyTorch finds no GPU", file=sys.stderr)
        sys.exit(3)
    if o.device == "auto":
        o.device = "gpu" if torch.cuda.is_available() else "cpu"
    o.dtype = o.dtype or ("fp16" if o.device == "gpu" else "fp32")
    shapes = []
    for text in o.shape or SHAPES[o.device]:
        try:
            shape = [int(x) for x in text.split(",")]
        except ValueError:
            shape = []
        if len(shape) != 4 or min(shape) < 1:
            p.error(f"--shape {text}: four positive numbers are expected: batch, heads, sequence, head dimension")
        if o.heads_kv and (o.heads_kv < 0 or shape[1] % o.heads_kv):
            p.error(f"--heads-kv {o.heads_kv} must divide the {shape[1]} heads of --shape {text}")
        shapes.append(shape)
    o.shape = shapes
    return o


def inputs(o, shape):
    """q, k, v, do: random, the same for every contender."""
    batch, heads, seq, dim = shape
    torch.manual_seed(o.seed)
    device = "cuda" if o.device == "gpu" else "cpu"
    counts = [heads, o.heads_kv or heads, o.heads_kv or heads, heads]
    return [torch.randn(batch, h, seq, dim, device=device).to(NAMES[o.dtype]) for h in counts]


def flop(o, shape, which):
    """The charts' convention: forward 4 N^2 d H B, half of it if causal; backward 2.5 times that."""
    batch, heads, seq, dim = shape
    forward = 4.0 * seq * seq * dim * heads * batch / (2 if o.causal else 1)
    return forward if which == "forward" else 3.5 * forward


# --- right before fast ---------------------------------------------------------------------------------

def exact(o, x, sample):
    """O, dQ, dK, dV of some batch items by definition, in double precision."""
    q, k, v, d_o = (t[sample].double().requires_grad_() for t in x)
    group = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(group, 1).transpose(-2, -1) / math.sqrt(q.shape[3])
    if o.causal:
        scores = scores.masked_fill(contenders.hidden(q.shape[2], q.device), -math.inf)
    out = torch.softmax(scores, -1) @ v.repeat_interleave(group, 1)
    return (out.detach(),) + torch.autograd.grad(out, (q, k, v), d_o.detach())


def errors(got, right):
    return [(a.double() - b).abs().max().item() for a, b in zip(got, right)]


def verdict(o, wrong, yardstick, right):
    """Each tensor within twice the error of PyTorch's three steps in the same type, plus 1e-5."""
    for name, e, y, r in zip(("O", "dQ", "dK", "dV"), wrong, yardstick, right):
        limit = 2 * y + 1e-5 * max(1, r.abs().max().item())
        if not e <= limit:
            return f"{name} is off by {e:.3g}, allowed is {limit:.3g}"
    return None


def compare(o, x, all_of):
    """The contenders that are right; prints the others."""
    sample = sorted({0, x[0].shape[0] - 1})
    right = exact(o, x, sample)
    yardstick = errors([t[sample] for t in contenders.ThreeStep(x, o.causal).outputs()], right)
    passed, failed = [], False
    for c in all_of:
        try:
            got = [t[sample] for t in c.outputs()]
        except (RuntimeError, fa.Refused) as e:
            print(f"  {c.name}: not run: {str(e).splitlines()[0]}")
            continue
        wrong = errors(got, right)
        reason = verdict(o, wrong, yardstick, right)
        if reason:
            print(f"  {c.name}: WRONG: {reason}; not timed")
            failed = True
        else:
            passed.append(c)
    print("  largest error of O, dQ, dK, dV in PyTorch's three steps: " + ", ".join(f"{e:.2g}" for e in yardstick))
    return passed, failed


# --- time ----------------------------------------------------------------------------------------------

def measure(o, passed, which, clock):
    """Seconds per call of each contender, one number per round."""
    times = {c.name: [] for c in passed}
    for _ in range(o.rounds):
        for c in random.sample(passed, len(passed)):
            call = c.forward if which == "forward" else c.both
            seconds, calls = clock.time(call, o.untimed / 1e3, o.timed / 1e3)
            times[c.name].append((seconds, calls))
    return times


def table(o, shape, which, passed, times):
    median = {name: statistics.median(s for s, _ in rows) for name, rows in times.items()}
    print(f"\n  {which}: median of {o.rounds} rounds, time relative to each peer (below 1: faster than the peer)")
    peers = [c.name for c in passed if not c.ours]
    unit, size = ("TFLOP/s", 1e12) if o.device == "gpu" else ("GFLOP/s", 1e9)
    print(f"  {'':24}{'ms':>10}{'spread':>8}{unit:>9}" + "".join(f"{name:>22}" for name in peers))
    for c in passed:
        seconds = [s for s, _ in times[c.name]]
        line = f"  {c.name:24}{median[c.name] * 1e3:10.3f}{(max(seconds) - min(seconds)) / median[c.name]:8.1%}"
        line += f"{flop(o, shape, which) / median[c.name] / size:9.1f}"
        print(line + "".join(f"{median[c.name] / median[name]:22.3f}" for name in peers))


def one_shape(o, shape, clock, rows):
    batch, heads, seq, dim = shape
    print(f"\nbatch {batch}, heads {heads}, kv heads {o.heads_kv or heads}, seq {seq}, dim {dim}, {o.dtype}, "
          f"{'causal' if o.causal else 'full'}")
    x = inputs(o, shape)
    wanted = [text for text in o.only.split(",") if text]
    all_of = [c for c in contenders.all_of(o, x) if not wanted or any(text in c.name for text in wanted)]
    passed, failed = compare(o, x, all_of)
    if passed:
        under_load = clock.frequency(passed[0].forward)
        for which in ("forward", "forward+backward"):
            able = [c for c in passed if which == "forward" or c.backward]
            times = measure(o, able, which, clock)
            table(o, shape, which, able, times)
            rows.add(o, shape, which, times, under_load)
    for c in all_of:
        c.free()
    return passed, failed


def main():
    o = options()
    random.seed(o.seed)
    clock = record.clock(o)
    rows = record.Rows(o, clock.device, clock.driver)
    print(f"{clock.device}; PyTorch {torch.__version__}; commit {rows.commit}")
    compared, failed = False, False
    for shape in o.shape:
        passed, wrong = one_shape(o, shape, clock, rows)
        compared = compared or any(c.ours for c in passed) and any(not c.ours for c in passed)
        failed = failed or wrong
    rows.close()
    if failed:
        sys.exit(1)
    if not compared:
        print("bench_peers: there was nothing of ours, or nothing of PyTorch's, to compare", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
