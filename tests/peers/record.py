"""Clocks, and the raw rows of a run."""
import csv
import datetime
import os
import pathlib
import re
import subprocess
import time

import torch

FIELDS = ["date", "commit", "device", "driver", "clock_mhz", "torch", "dtype", "batch", "heads", "heads_kv", "seq",
          "dim", "causal", "pass", "contender", "round", "calls", "seconds_per_call"]


def text_of(*command):
    """What a command prints, or an empty text where it does not exist or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


class CpuClock:
    def __init__(self, threads):
        torch.set_num_threads(threads)
        os.environ["OMP_NUM_THREADS"] = str(threads)  # for our libraries, which are loaded later
        model = re.search(r"model name\s*: (.*)", self.cpuinfo())
        self.device = f"{model.group(1) if model else 'CPU'}, {threads} threads"
        self.driver = ""

    @staticmethod
    def cpuinfo():
        try:
            return pathlib.Path("/proc/cpuinfo").read_text()
        except OSError:
            return ""

    def frequency(self, call):
        call()
        mhz = [float(x) for x in re.findall(r"cpu MHz\s*: ([\d.]+)", self.cpuinfo())]
        return round(max(mhz)) if mhz else ""

    def time(self, call, untimed, timed):
        """(seconds per call, calls): at least one call untimed and one timed."""
        start = time.perf_counter()
        while True:
            call()
            if time.perf_counter() - start >= untimed:
                break
        calls, start = 0, time.perf_counter()
        while True:
            call()
            calls += 1
            seconds = time.perf_counter() - start
            if seconds >= timed:
                return seconds / calls, calls


class GpuClock:
    def __init__(self):
        p = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.device = f"{p.name} (sm_{p.major}{p.minor}, {p.multi_processor_count} SMs)"
        self.driver = self.ask("driver_version")

    @staticmethod
    def ask(what):
        index = str(torch.cuda.current_device())
        return text_of("nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", "-i", index)

    def frequency(self, call):
        """The SM clock while the GPU is busy: half a second of calls is queued first."""
        seconds, _ = self.time(call, 0.05, 0.05)
        for _ in range(max(1, int(0.5 / seconds))):
            call()
        mhz = self.ask("clocks.sm")
        torch.cuda.synchronize()
        return mhz

    def time(self, call, untimed, timed):
        """(seconds per call, calls), by events around calls that are all queued at once."""
        calls, start = 0, time.perf_counter()
        while calls == 0 or time.perf_counter() - start < untimed:
            call()
            torch.cuda.synchronize()
            calls += 1
        calls = max(1, round(timed / ((time.perf_counter() - start) / calls)))
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1e3 / calls, calls


def clock(o):
    if o.device == "gpu":
        return GpuClock()
    return CpuClock(o.threads or len(os.sched_getaffinity(0)))


class Rows:
    """notes/results/peers_DEVICE_DATE.csv: one row per contender, pass and round; runs of a day are added."""

    def __init__(self, o, device, driver):
        self.device, self.driver = device, driver
        self.date = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self.commit = text_of("git", "rev-parse", "--short", "HEAD") or "unknown"
        if text_of("git", "status", "--porcelain", "--untracked-files=no"):
            self.commit += "+changes"
        self.file = None
        if o.results:
            slug = re.sub(r"[^a-z0-9]+", "-", device.split(",")[0].split("(sm_")[0].lower()).strip("-")
            self.path = pathlib.Path(o.results) / f"peers_{slug}_{self.date[:10]}.csv"
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            self.file = self.path.open("a", newline="")
            self.out = csv.DictWriter(self.file, FIELDS)
            if new:
                self.out.writeheader()

    def add(self, o, shape, which, times, clock_mhz):
        if not self.file:
            return
        batch, heads, seq, dim = shape
        for name, rounds in times.items():
            for n, (seconds, calls) in enumerate(rounds):
                self.out.writerow({
                    "date": self.date, "commit": self.commit, "device": self.device, "driver": self.driver,
                    "clock_mhz": clock_mhz, "torch": torch.__version__, "dtype": o.dtype, "batch": batch,
                    "heads": heads, "heads_kv": o.heads_kv or heads, "seq": seq, "dim": dim,
                    "causal": int(o.causal), "pass": which, "contender": name, "round": n, "calls": calls,
                    "seconds_per_call": f"{seconds:.9g}"})

    def close(self):
        if self.file:
            self.file.close()
            print(f"\nraw rows: {self.path}")
