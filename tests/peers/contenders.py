"""Who competes: PyTorch's three steps, its fused attention, and every step of ours that this machine runs.

A contender has `name`, `ours`, `forward()` and `both()` to be timed, `outputs()` = O, dQ, dK, dV, and `free()`.
Without `backward` there is no `both()`, and `outputs()` is O alone; that is known after the first `outputs()`.
"""
import math

import torch
import torch.nn.functional as F

import fa

try:
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:  # PyTorch before 2.3
    SDPBackend = None


def hidden(seq, device):
    """True where a causal query may not look."""
    return torch.ones(seq, seq, dtype=torch.bool, device=device).triu(1)


class Peer:
    """One of PyTorch's: `attention(q, k, v)`, with gradients from autograd."""
    ours, backward = False, True

    def __init__(self, x, causal):
        self.q, self.k, self.v = (t.detach().clone().requires_grad_() for t in x[:3])
        self.d_o, self.causal = x[3], causal
        self.scale = 1 / math.sqrt(x[0].shape[3])

    def forward(self):
        with torch.no_grad():
            return self.attention(self.q, self.k, self.v)

    def both(self):
        out = self.attention(self.q, self.k, self.v)
        return (out,) + torch.autograd.grad(out, (self.q, self.k, self.v), self.d_o)

    def outputs(self):
        return [t.detach() for t in self.both()]

    def free(self):
        self.q = self.k = self.v = self.d_o = self.mask = None


class ThreeStep(Peer):
    """Standard attention as it is usually written: matmul, scale, softmax, matmul."""
    name = "three-step"

    def __init__(self, x, causal):
        super().__init__(x, causal)
        self.mask = hidden(self.q.shape[2], self.q.device) if causal else None

    def expand(self, k):
        group = self.q.shape[1] // k.shape[1]
        return k.repeat_interleave(group, 1) if group > 1 else k

    def scores(self, q, k):
        return q @ self.expand(k).transpose(-2, -1) * self.scale

    def attention(self, q, k, v):
        s = self.scores(q, k)
        if self.causal:
            s = s.masked_fill(self.mask, -math.inf)
        return torch.softmax(s, dim=-1) @ self.expand(v)


class ThreeStepScaledQ(ThreeStep):
    """The same with the scale applied to Q: one pass over the N x N scores less, and one less backward."""
    name = "three-step, Q scaled"

    def scores(self, q, k):
        return (q * self.scale) @ self.expand(k).transpose(-2, -1)


class Sdpa(Peer):
    """scaled_dot_product_attention with one of its back ends."""

    def __init__(self, x, causal, name, backend):
        super().__init__(x, causal)
        self.name, self.backend = name, backend
        self.more = {"enable_gqa": True} if x[0].shape[1] != x[1].shape[1] else {}

    def attention(self, q, k, v):
        if self.backend is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, **self.more)
        with sdpa_kernel([self.backend]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, **self.more)


class Ours:
    """One step of one stage, through the C interface."""
    ours, backward = True, False

    def __init__(self, x, causal, library, step, device):
        self.lib, self.step, self.device = library, step, device
        self.name = f"{library.stage[:2]} {step}"
        self.x, self.causal, self.problem, self.keep = x, causal, None, None

    def prepare(self):
        """Outputs and workspace, allocated once; raises Refused with the reason."""
        q, k, v, d_o = self.x
        batch, heads, seq, dim = q.shape
        out = [torch.full_like(t, math.nan) for t in (q, q, k, v)]  # O, dQ, dK, dV
        lse = torch.full((batch, heads, seq), math.nan, dtype=torch.float32, device=q.device)
        p = fa.Problem(batch=batch, heads_q=heads, heads_kv=k.shape[1], seq_q=seq, seq_k=seq, head_dim=dim,
                       head_dim_v=dim, dtype=fa.DTYPES[q.dtype], dtype_out=fa.DTYPES[q.dtype],
                       causal=self.causal, scale=1 / math.sqrt(dim), lse=lse.data_ptr())
        for name, t in zip(("q", "k", "v", "d_o", "o", "dq", "dk", "dv"), list(self.x) + out):
            setattr(p, name, fa.tensor(t))
        self.backward = True
        self.lib.supports(p, self.step, fa.FORWARD, self.device)
        try:
            self.lib.supports(p, self.step, fa.BACKWARD, self.device)
        except fa.Refused:
            self.backward = False
        passes = [fa.FORWARD] + [fa.BACKWARD] * self.backward
        need = max(self.lib.workspace(p, self.step, which, self.device) for which in passes)
        try:
            workspace = torch.empty(need + 256, dtype=torch.uint8, device=q.device)
        except RuntimeError as e:
            raise fa.Refused(f"its workspace of {need / 1e9:.2f} GB does not fit") from e
        p.workspace, p.workspace_size = (workspace.data_ptr() + 255) // 256 * 256, need
        if self.device == "gpu":
            p.stream = torch.cuda.current_stream().cuda_stream
        self.problem, self.out, self.keep = p, out, (lse, workspace)

    def forward(self):
        self.lib.run(self.problem, self.step, fa.FORWARD, self.device)

    def both(self):
        self.lib.run(self.problem, self.step, fa.FORWARD, self.device)
        self.lib.run(self.problem, self.step, fa.BACKWARD, self.device)

    def outputs(self):
        self.prepare()
        if self.backward:
            self.both()
            return self.out
        self.forward()
        return self.out[:1]

    def free(self):
        self.problem = self.out = self.keep = self.x = None


def all_of(o, x):
    found = [ThreeStep(x, o.causal), ThreeStepScaledQ(x, o.causal)]
    if o.device == "cpu":
        found.append(Sdpa(x, o.causal, "SDPA", None))
    elif SDPBackend:
        found.append(Sdpa(x, o.causal, "SDPA cuDNN", SDPBackend.CUDNN_ATTENTION))
        found.append(Sdpa(x, o.causal, "SDPA flash", SDPBackend.FLASH_ATTENTION))
    libraries = {}
    for stage, step in fa.steps(o.build, o.device):
        if stage not in libraries:
            libraries[stage] = fa.SharedObject(o.build, stage)
        found.append(Ours(x, o.causal, libraries[stage], step, o.device))
    return found
