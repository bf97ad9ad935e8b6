#!/usr/bin/env python3
"""mutants.py STAGE [--list] [--only TEXT] [--jobs N] [--learner]: tests the tests.

Every synchronisation and asynchronous call of the stage's kernels is deleted in turn and every number of theirs changed
(mutants_sites.py), and every bug of tests/mutants/STAGE.mut is put in (mutants.sh describes the file). Each is built in
a copy of the tree and must make the stage's tests fail: first those where it should show soonest, then all.

What survives must stand in tests/mutants/STAGE.redundant, in blocks of four lines:
  site: FILE: the source line        its number would not last
  change: what is changed there      as this program prints it
  implied-by: FILE: source line      the call that makes the site unnecessary; deleting both must be killed
  why: the reason
An entry that is not true any more is an error, and so are more entries than a tenth of the stage's mutants.

--learner looks at every deleted barrier and wait as a learner does: does the message of the failed check name two
places with the deleted line between them?
"""
import argparse, glob, os, queue, re, shutil, subprocess, sys, threading, time
from mutants_sites import ORDERS, loops_around, sites

MOST_SECONDS = 600  # of one run of the tests
FAILURE = re.compile(r"^[^:\s]*:\d+:[FE]:[^:]*:([^:]*):.*?: (\d+ failures, the first:\s)?(.*)", re.M)
GROUPS = ("oblong", "heads", "")  # of cases, in the order in which they are tried; "" is all


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def blocks(path):
    """The blocks of `key: value` lines of a list, with # between them; the last key of a block is new: or why:."""
    block, result = {}, []
    for line in read(path).splitlines() if os.path.exists(path) else []:
        if line and not line.startswith("#"):
            key, _, value = line.partition(":")
            block[key] = value[1:]
            if key in ("new", "why"):
                result.append(block)
                block = {}
    return result


class Mutant:
    def __init__(self, name, what, edited, tries, site=None):
        self.name, self.what, self.site = name, what, site
        self.edited = edited  # {file: its text}
        self.tries = tries + [""]
        self.result, self.by, self.code, self.message, self.seconds = "BROKEN", "", "", "", 0.0


def patched(*changes):
    """{file: text} with all these sites changed; the last ones first, so that positions stay true."""
    edited = {}
    for s in sorted(changes, key=lambda s: -s.start):
        text = edited.get(s.file) or read(s.file)
        edited[s.file] = text[: s.start] + s.new + text[s.end :]
    return edited


def tries_for(stage, file):
    """FA_CASE texts: the file's name begins with its step's, and a backward kernel's says so."""
    stem = os.path.splitext(os.path.basename(file))[0]
    step = stem.split("_")[0]
    step = step + "/" if f'"{step}"' in read(f"{stage}/stage.c") else ""
    passes = ["backward"] if "backward" in stem else ["forward"] + ["backward"] * file.endswith(".cuh")
    return [f".{p}.{step}{g}" for g in GROUPS if step for p in passes] or [f".{p}." for p in passes]


def systematic(stage):
    skipped = re.search(r"^NOT_EMULATED := (.*)", read("common/rules.mk"), re.M).group(1).split()
    for file in sorted(glob.glob(f"{stage}/*.cu") + glob.glob(f"{stage}/*.cuh")):
        for s in sites(file, read(file)) if file not in skipped else []:
            yield Mutant(f"{file}:{s.line}", s.change, patched(s), tries_for(stage, file), s)


def seeded(stage):
    for b in blocks(f"tests/mutants/{stage}.mut"):
        lines = read(b["file"]).split("\n")
        found = [n for n, line in enumerate(lines) if line.strip() == b["old"].strip()]
        for n in found:
            lines[n] = b["new"]
        m = Mutant(b["name"], b["what"], {b["file"]: "\n".join(lines)}, [b["try"]] if "try" in b else [])
        m.message = "" if len(found) == 1 else f"its line is {len(found)} times in {b['file']}"
        yield m


class Tree:
    """A copy of the tree in which mutants are built. Its objects came with their times: only what changes is compiled."""

    def __init__(self, stage, number):
        self.stage, self.root = stage, f"build/mutants/{stage}.{number}"
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(f"{self.root}/build")
        built = ["obj", "tests", "flags", "check.cflags", "check.libs"]
        built = [f"build/{b}" for b in built] + glob.glob(f"build/registry_{stage}.*")
        self.copy(["Makefile", "common", "tests", stage], self.root)
        self.copy([b for b in built if os.path.exists(b)], f"{self.root}/build")

    def copy(self, paths, to):
        subprocess.run(["cp", "-a", *paths, to], check=True)

    def shell(self, command, **extra):
        """(exit status, output); no jobs or variables of the make that called."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "FA_"))}
        command = ["timeout", "-k", "5", str(MOST_SECONDS)] + command
        done = subprocess.run(command, cwd=self.root, env={**env, **extra}, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        return done.returncode, done.stdout

    def build(self):
        return self.shell(["make", "--no-print-directory", "CUDA=0", "WERROR=0", "-j1", f"build/tests/check_{self.stage}"])

    def test(self, case):
        only = {"FA_CASE": case} if case else {}
        return self.shell([f"build/tests/check_{self.stage}"], FA_FAIL_FAST="1", **only)

    def baseline(self):
        status, log = self.build()
        os.makedirs(f"{self.root}/build/good")
        self.copy([f"{self.root}/build/obj/{self.stage}"], f"{self.root}/build/good")
        return status, log

    def run(self, m):
        began = time.time()
        for file, text in m.edited.items():
            with open(f"{self.root}/{file}", "w", encoding="utf-8") as f:
                f.write(text)
        status, log = self.build() if not m.message else (1, "error: " + m.message)
        if status:
            m.message = next((line for line in log.splitlines() if "error" in line), log[-200:])
        for case in m.tries if status == 0 else []:
            code, log = self.test(case)
            m.result = "SURVIVED" if code == 0 else "killed"
            if code:
                self.judge(m, log, code)
                break
        for file in m.edited:  # the clean file and its objects, both with their old times
            self.copy([file], f"{self.root}/{os.path.dirname(file)}")
        self.copy([f"{self.root}/build/good/{self.stage}"], f"{self.root}/build/obj")
        m.seconds = time.time() - began

    def judge(self, m, log, status):
        failed = FAILURE.search(log)
        if not failed:
            m.result = "killed" if status == 124 else "BROKEN"
            m.by, m.code, m.message = "nothing", "timeout", f"the tests ended with status {status}: {log[-200:]}"
            return
        m.by, m.message = failed.group(1), failed.group(3)
        code = re.search(r"\[(E\d\d)\]", m.message)
        m.code = code.group(1) if code else "timeout" if "imeout" in m.message else "values"


def run_all(stage, mutants, jobs, done):
    """Runs every mutant, `jobs` at a time, each in the next free tree."""
    waiting = queue.Queue()
    for m in mutants:
        waiting.put(m)
    failed = []

    def work(number):
        tree = Tree(stage, number)
        status, log = tree.baseline()
        if not status and number == 0:
            status, log = tree.test("")
        if status:
            failed.append(log)
        while not failed:
            try:
                m = waiting.get_nowait()
            except queue.Empty:
                return
            tree.run(m)
            done(m)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(min(jobs, len(mutants)))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        sys.exit(f"mutants: {stage} does not build or pass without any bug; mend that first:\n{failed[0][-1500:]}")


def show(m):
    told = f"{m.code:8}by {m.by}" if m.result == "killed" else m.message if m.result == "BROKEN" else ""
    print(f"{m.name:38} {m.what:60.60} {m.result:9} {told} ({m.seconds:.0f} s)", flush=True)


def check_redundant(stage, mutants, jobs):
    """The survivors that the list explains, and the errors of the list."""
    named, both, errors = {}, [], []
    by_text = lambda text, change: [
        m for m in mutants if m.site and f"{m.site.file}: {m.site.source}" == text and (not change or m.what == change)
    ]
    for b in blocks(f"tests/mutants/{stage}.redundant"):
        one = by_text(b["site"], b["change"])
        other = [m for m in by_text(b["implied-by"], "") if m.what.endswith("deleted")]
        if len(one) != 1 or len(other) != 1:
            errors.append(f"{b['site']}: it or what implies it is not exactly one site")
        elif one[0].result != "SURVIVED":
            errors.append(f"{one[0].name}: listed as redundant, but {one[0].result}")
        else:
            one[0].result = "redundant"
            pair = patched(one[0].site, other[0].site)
            both.append(Mutant(one[0].name, f"and {other[0].name} deleted", pair, one[0].tries[:-1]))
    if both:
        run_all(stage, both, jobs, show)
    errors += [f"{m.name}: listed as redundant, but both deleted: {m.result}" for m in both if m.result != "killed"]
    return errors


def kernel_lines(message):
    """Of each place in a message, (file, line) in the kernel: "a.cuh:71 (called at b.cu:49, :307)" is b.cu, 307."""
    for place, calls in re.findall(r"(\w+\.cuh?:\d+)(?: \(called at ([^)]*)\))?", message):
        steps = [place] + (calls.split(", ") if calls else [])
        file = [step.split(":")[0] for step in steps if step[0] != ":"][-1]
        yield file, int(steps[-1].split(":")[1])


def learner_says(m):
    """Does the message for a deleted barrier or wait say where it was? "", or "exception", or what is wrong."""
    places = list(kernel_lines(m.message))
    lines = sorted(line for file, line in places if file == os.path.basename(m.site.file))
    if m.site.file.endswith(".cuh") or m.code == "E10":
        return "exception"  # a helper is between no two lines of a kernel; E10 has one access, and the end
    if len(places) < 2 or len(lines) < 2:
        return f"names {len(lines)} places of this file"
    cyclic = any(a <= lines[0] and lines[-1] <= b for a, b in loops_around(read(m.site.file), m.site.line))
    return "" if lines[0] <= m.site.line <= lines[-1] or cyclic else f"not between lines {lines}"


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("stage")
    ask.add_argument("--list", action="store_true")
    ask.add_argument("--learner", action="store_true")
    ask.add_argument("--only", default="", help="mutants with this text in their line")
    ask.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    o = ask.parse_args()
    mutants = list(systematic(o.stage)) + ([] if o.learner else list(seeded(o.stage)))
    if o.learner:
        mutants = [m for m in mutants if m.site.name in ORDERS and m.what.endswith("deleted")]
        for m in mutants:
            m.tries = [""]  # what make check shows
    total = len(mutants)
    mutants = [m for m in mutants if o.only in f"{m.name} {m.what}"]
    if o.list:
        for m in mutants:
            print(m.name, m.what)
        return 0
    began, bad = time.time(), 0
    run_all(o.stage, mutants, o.jobs, show)
    if o.learner:
        for m in mutants:
            says = learner_says(m) if m.result == "killed" else m.result
            print(f"{m.name}: {says or 'between'}: {m.message}")
            bad += says not in ("", "exception", "SURVIVED")
        return bad > 0
    errors = check_redundant(o.stage, mutants, o.jobs) if not o.only else []
    count = lambda result: sum(m.result == result for m in mutants)
    if count("redundant") * 10 > total:
        errors.append(f"{count('redundant')} of {total} mutants are listed as redundant: more than a tenth")
    for e in errors:
        print("error:", e)
    for m in mutants:
        if m.result in ("SURVIVED", "redundant"):
            print(f"{m.result}: {m.name} {m.what}")
    for kind, some in (("systematic", [m for m in mutants if m.site]), ("seeded", [m for m in mutants if not m.site])):
        n = lambda result: sum(m.result == result for m in some)
        print(f"{o.stage} {kind}: {len(some)} mutants: {n('killed')} killed, {n('redundant')} redundant, "
              f"{n('SURVIVED')} survived, {n('BROKEN')} broken")  # fmt: skip
    print(f"mutants of {o.stage}: {time.time() - began:.0f} s")
    return bool(errors or count("SURVIVED") or count("BROKEN") or not mutants)


if __name__ == "__main__":
    sys.exit(main())
