"""Where a kernel file can be broken: every call in CALLS is deleted, and its numbers are changed, one at a time."""
import re

# One line for each function: "delete" if its call may be taken away, and what its arguments are. Argument numbers count
# from 0; "<>" is the template argument.
#   bytes    16 <-> 0 inside the argument        plus    one more (and, above 0, one less)
#   warp     32 threads more                     flip    the other parity
CALLS = {
    "__syncthreads": ("delete", {}),
    "__syncwarp": ("delete", {}),
    "bar_sync": ("delete", {0: "plus", 1: "warp"}),
    "bar_arrive": ("delete", {0: "plus", 1: "warp"}),
    "cp_async_16": ("delete", {2: "bytes"}),
    "cp_async_commit": ("delete", {}),
    "cp_async_wait": ("delete", {"<>": "plus"}),
    "commit_copies": ("delete", {}),
    "wait_for_copies": ("delete", {}),
    "mbarrier_init": ("delete", {1: "plus"}),
    "mbarrier_arrive": ("delete", {}),
    "mbarrier_arrive_expect_tx": ("delete", {1: "plus"}),
    "mbarrier_wait": ("delete", {1: "flip"}),
    "fence_mbarrier_init": ("delete", {}),
    "fence_proxy_async": ("delete", {}),
    "tma_load_3d": ("delete", {}),
    "wgmma_fence": ("delete", {}),
    "wgmma_commit": ("delete", {}),
    "wgmma_wait": ("delete", {"<>": "plus"}),
    "tcgen05_commit": ("delete", {}),
    "tcgen05_wait_ld": ("delete", {}),
    "tcgen05_wait_st": ("delete", {}),
    "tcgen05_fence_before": ("delete", {}),
    "tcgen05_fence_after": ("delete", {}),
}
ORDERS = {n for n in CALLS if re.search("sync|wait|fence|bar_", n)} - {"cp_async_16", "cp_async_commit"}


class Site:
    """One change of one place: file, line, the source line (which names the site in lists), and the edit."""

    def __init__(self, file, text, name, change, start, end, new):
        self.file, self.name, self.change = file, name, change
        self.start, self.end, self.new = start, end, new
        self.line = text.count("\n", 0, start) + 1
        self.source = text.splitlines()[self.line - 1].strip()


def blank(text):
    """The text with comments and strings overwritten by spaces: positions and lines stay."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def arguments(code, opening):
    """The (start, end) of each argument between the parenthesis at `opening` and its partner; and the partner."""
    depth, start, result = 0, opening + 1, []
    for at in range(opening, len(code)):
        if code[at] in "([{":
            depth += 1
        elif code[at] in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and code[at] == ","):
            if code[start:at].strip():
                result.append((start, at))
            start = at + 1
        if depth == 0:
            return result, at
    return result, len(code)


def numbers(rule, old):
    """What an argument may become, and how to say it."""
    if rule == "bytes":
        for m in re.finditer(r"\b(16|0)\b", old):
            other = "0" if m.group() == "16" else "16"
            yield old[: m.start()] + other + old[m.end() :], f"{m.group()} bytes -> {other}"
    elif rule == "flip":
        yield f"({old}) ^ 1", "other parity"
    else:
        step = 32 if rule == "warp" else 1
        yield f"({old}) + {step}", f"{old} -> {old} + {step}"
        if not old.isdigit() or int(old) >= step:
            yield f"({old}) - {step}", f"{old} -> {old} - {step}"


def sites(file, text):
    """All sites of one file, in order."""
    code = blank(text)
    for m in re.finditer(r"\b(%s)\b\s*(?:<([^<>;]*)>)?\s*\(" % "|".join(CALLS), code):
        name, (deletable, rules) = m.group(1), CALLS[m.group(1)]
        args, closing = arguments(code, m.end() - 1)
        before = code[: m.start()].rstrip()
        end = re.match(r"\)\s*;", code[closing:])
        # A statement: not a definition (no ;), not part of an expression (its result is used).
        statement = end and (before[-1:] in ";{})" or re.search(r"(\belse|#[^\n]*)$", before))
        if deletable and statement:
            gone = re.sub(r"[^\n]", "", text[m.start() : closing + end.end()])
            yield Site(file, text, name, f"{name} deleted", m.start(), closing + end.end(), ";" + gone)
        for n, rule in rules.items():
            if n == "<>":
                where = m.span(2) if m.group(2) else None
            else:
                where = args[n] if end and n < len(args) else None
            if where and where[0] >= 0:
                lead = len(text[where[0] : where[1]]) - len(text[where[0] : where[1]].lstrip())
                where = (where[0] + lead, where[1])
                for new, said in numbers(rule, text[where[0] : where[1]]):
                    yield Site(file, text, name, f"{name}: {said}", where[0], where[1], new)


def loops_around(text, line):
    """(first, last) lines of the loops that enclose a line."""
    code, result = blank(text), []
    for m in re.finditer(r"\b(for|while)\s*\(", code):
        _, closing = arguments(code, m.end() - 1)
        body = re.match(r"\)\s*\{", code[closing:])
        if body:
            _, end = arguments(code, closing + body.end() - 1)
            first, last = code.count("\n", 0, m.start()) + 1, code.count("\n", 0, end) + 1
            if first <= line <= last:
                result.append((first, last))
    return result
