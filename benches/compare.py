"""Times commands side by side and prints how they compare; called by compare.sh, which says what can be chosen."""
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CORES = len(os.sched_getaffinity(0))
RUNS = int(os.environ.get("RUNS", "5"))
BEGIN = "<!-- table of comparisons, written by benches/compare.sh -->\n"
END = "<!-- end of the table -->"


def number(name, default):
    text = os.environ.get(name, default)
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


class Way:
    """One command, what is done before each of its runs, and what was measured."""

    def __init__(self, name, command, before=None, cwd=None, shell=False):
        self.name, self.command, self.before, self.cwd, self.shell = name, command, before, cwd, shell
        self.wall, self.core, self.peak = [], [], 0

    def run(self, keep=True):
        cwd = self.before() if self.before else self.cwd
        words = ["sh", "-c", self.command] if self.shell else [str(word) for word in self.command]
        begun = time.perf_counter()
        child = subprocess.Popen(words, cwd=cwd, env=ENV, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        talk = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"{self.name}: exit {child.returncode}\n{talk.decode(errors='replace')}")
        if keep:
            self.wall.append(wall)
            self.core.append(usage.ru_utime + usage.ru_stime)
            self.peak = max(self.peak, usage.ru_maxrss * 1024)

    @property
    def time(self):
        return statistics.median(self.wall)

    @property
    def core_time(self):
        return statistics.median(self.core)


def side_by_side(*ways):
    """Each way once to warm the caches, then all of them in turn, so that what else runs here hits all alike."""
    ways = [way for way in ways if way]
    for way in ways:
        way.run(keep=False)
    for _ in range(RUNS):
        for way in ways:
            way.run()


ROWS = []


def row(work, ours, theirs, than, bar, faster=False):
    """`than` seconds are theirs; `bar` times that is what we may take, or with `faster` what they must."""
    ratio = than / ours.time if faster else ours.time / than
    held = ratio >= bar if faster else ratio <= bar
    said = f"{ratio:.2f} x {'as fast' if faster else 'the time'}"
    wanted = f"at {'least' if faster else 'most'} {bar} x"
    ROWS.append(f"| {work} | {ours.time:.3f} s | {theirs} {than:.3f} s | {said} | {wanted} | {'yes' if held else '**no**'} |")
    print(ROWS[-1], file=sys.stderr, flush=True)


def peak_row(work, ours, bar):
    mib = ours.peak / (1 << 20)
    held = "yes" if mib < bar else "**no**"
    ROWS.append(f"| {work}: peak memory | {mib:.0f} MiB | | | under {bar} MiB | {held} |")
    print(ROWS[-1], file=sys.stderr, flush=True)


def lay(folder, count, size, folders):
    """Files of other content each, unless they are there; the last thing made says that all are."""
    whole = folder.parent / f"{folder.name}.{count}.{size}.{folders}"
    if whole.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    for old in folder.parent.glob(f"{folder.name}.*"):
        old.unlink()
    for n in range(folders):
        (folder / str(n) if folders > 1 else folder).mkdir(parents=True)
    for n in range(count):
        place = folder / str(n % folders) if folders > 1 else folder
        with open(place / f"{n:07}.bin", "wb") as file:
            if size <= 1 << 20:
                file.write((b"%020d" % n * (size // 20 + 1))[:size])
            else:
                for _ in range(size >> 20):
                    file.write(os.urandom(1 << 20))
    whole.touch()
    # What was touched just now is read again, so nothing is measured before files have rested.
    time.sleep(3)
    return folder


def big():
    """Large files, BLAKE3 alone."""
    folder = lay(DATA / "big", number("FILES", "4"), number("SIZE", "1G"), 1)
    files = sorted(folder.iterdir())
    ours = Way("ledger hash", [LEDGER, "hash", "--no-cache", folder])
    mapped = Way("ledger hash --mmap", [LEDGER, "hash", "--no-cache", "--mmap", folder])
    theirs = Way("b3sum", [B3SUM, *files]) if B3SUM else None
    reads = Way("b3sum --no-mmap", [B3SUM, "--no-mmap", *files]) if B3SUM else None
    side_by_side(ours, mapped, theirs, reads)
    what = f"{len(files)} files of {os.environ.get('SIZE', '1G')}, BLAKE3"
    if B3SUM:
        row(f"{what}, by reading", ours, "`b3sum` (mapped)", theirs.time, 1.25)
        row(f"{what}, by reading", ours, "`b3sum --no-mmap`", reads.time, 1.25)
        row(f"{what}, `--mmap`", mapped, "`b3sum` (mapped)", theirs.time, 1.1)
    peak_row(what, ours, 200)


def both():
    """Large files, BLAKE3 and SHA-256."""
    folder = lay(DATA / "big", number("FILES", "4"), number("SIZE", "1G"), 1)
    files = sorted(folder.iterdir())
    hashed = [LEDGER, "hash", "--no-cache", "--digests", "all"]
    ours, one = Way("ledger hash", [*hashed, folder]), Way("ledger hash", [*hashed, files[0]])
    # One thread each and by reading: what the work of either hash is, wherever it is done.
    b3 = Way("b3sum", [B3SUM, "--no-mmap", "--num-threads", "1", *files]) if B3SUM else None
    sha = Way("openssl", ["openssl", "dgst", "-sha256", *files])
    sha_one = Way("openssl", ["openssl", "dgst", "-sha256", files[0]])
    side_by_side(ours, one, b3, sha, sha_one)
    size = os.environ.get("SIZE", "1G")
    if B3SUM:
        ideal = (b3.core_time + sha.core_time) / CORES
        row(f"{len(files)} files of {size}, both digests", ours,
            f"core time of `b3sum` and `openssl dgst -sha256`, divided by {CORES} cores,", ideal, 1.15)
    row(f"one file of {size}, both digests", one, "`openssl dgst -sha256`", sha_one.time, 1.1)
    peak_row(f"{len(files)} files of {size}, both digests", ours, 200)


def many():
    """Small files, against tools that version data and sign models."""
    folder = lay(DATA / "many", number("MANY", "20000"), 8 << 10, 100)
    ours = Way("ledger hash", [LEDGER, "hash", "--no-cache", "--digests", "all", folder])
    scratch = WORK / "dvc"

    def dvc_project():
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        # The same inodes under another name: nothing is copied before it is measured.
        subprocess.run(["cp", "-al", folder, scratch / "many"], check=True)
        quiet = dict(cwd=scratch, env=ENV, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["git", "init", "-q"], **quiet)
        subprocess.run([DVC, "init", "-q"], **quiet)
        return scratch

    dvc = Way("dvc add", [DVC, "add", "-q", "many"], dvc_project) if DVC else None
    signing = None
    if MODEL_SIGNING:
        key = WORK / "key.pem"
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True)
        signature = WORK / "model.sig"
        signing = Way("model_signing", [MODEL_SIGNING, "sign", "key", folder, "--private_key", key,
                                        "--signature", signature])
    side_by_side(ours, dvc, signing)
    what = f"{number('MANY', '20000')} files of 8 KiB, both digests"
    if dvc:
        row(what, ours, "`dvc add`", dvc.time, 6, faster=True)
    if signing:
        row(what, ours, "`model_signing sign key`", signing.time, 4, faster=True)
    peak_row(what, ours, 200)


def record():
    """A dataset that is new to its ledger, against hashing it."""
    folder = lay(DATA / "record", number("RECORD", "100000"), 100, 1000)
    project = WORK / "project"

    def fresh():
        shutil.rmtree(project, ignore_errors=True)
        project.mkdir()
        subprocess.run([LEDGER, "-q", "init", "--name", "bench"], cwd=project, env=ENV, check=True,
                       stdout=subprocess.DEVNULL)
        return project

    ours = Way("ledger record", [LEDGER, "-q", "record", "dataset", folder, "--name", "d", "--no-cache"], fresh)
    kept = Way("ledger record", [LEDGER, "-q", "record", "dataset", folder, "--name", "d"], fresh)
    hashed = Way("ledger hash", [LEDGER, "hash", "--no-cache", folder])
    side_by_side(ours, hashed)
    what = f"record a dataset of {number('RECORD', '100000')} new files in 1,000 folders"
    row(what, ours, "`ledger hash` of it", hashed.time, 1.5)
    # Once more with the cache, which the first of these fills.
    side_by_side(kept)
    ROWS.append(f"| the same, its files hashed before and untouched | {kept.time:.3f} s | | | | |")


def again():
    """Nothing has changed since, against a walk that looks at every file."""
    folder = lay(DATA / "record", number("RECORD", "100000"), 100, 1000)
    ours = Way("ledger hash", [LEDGER, "hash", folder])
    walk = Way("find", ["find", folder, "-printf", "%s %T@ %C@\n"])
    side_by_side(ours, walk)
    row(f"{number('RECORD', '100000')} files, nothing changed", ours, "`find -printf '%s %T@ %C@'`", walk.time, 1.5)


def freeze():
    """A small project, as in the tutorial."""
    project = WORK / "digits"
    shutil.copytree(REPOSITORY / "examples/digits", project)
    subprocess.run([LEDGER, "-q", "init", "--name", "bench"], cwd=project, env=ENV, check=True,
                   stdout=subprocess.DEVNULL)
    ours = Way("ledger freeze", [LEDGER, "-q", "freeze", "--no-code", "--", "python3", "train.py"], cwd=project)
    side_by_side(ours)
    held = "yes" if ours.time < 0.1 else "**no**"
    ROWS.append(f"| freeze of a small project | {ours.time:.3f} s | | | under 0.1 s | {held} |")


def tiny(name, folders):
    count = number("MILLION", "1000000")
    folder = lay(DATA / name, count, 100, folders)
    ours = Way("ledger hash", [LEDGER, "hash", "--no-cache", folder])
    reads = f"find '{folder}' -type f -print0 | xargs -0 -P {CORES} -n 2000 cat"
    walk = Way("find and cat", reads, shell=True)
    side_by_side(ours, walk)
    what = f"{count} files of 100 bytes in {'one folder' if folders == 1 else f'{folders} folders'}"
    row(what, ours, f"`find`, and `cat` on {CORES} cores,", walk.time, 3)
    peak_row(what, ours, 500)


def million():
    """Very many very small files."""
    tiny("million", 1000)


def flat():
    """All of them in one folder."""
    tiny("flat", 1)


ALL = dict(big=big, both=both, many=many, record=record, again=again, freeze=freeze, million=million, flat=flat)


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{CORES} cores ({model}), {memory:.0f} GiB, Linux {platform.release()}"


def main():
    chosen = sys.argv[2:] or list(ALL)
    if unknown := [word for word in chosen if word not in ALL]:
        sys.exit(f"compare.py: no row is called {unknown[0]}; there are {' '.join(ALL)}")
    for word in chosen:
        ALL[word]()
    said = " ".join(f"{name}={os.environ[name]}" for name in ("RUNS", "FILES", "SIZE", "MANY", "RECORD", "MILLION")
                    if name in os.environ)
    command = " ".join(word for word in [said, "benches/compare.sh", *sys.argv[2:]] if word)
    table = "\n".join([
        f"`{command}` on {machine()}: median of {RUNS} interleaved runs, files in the page cache.",
        "",
        "| work | ours | other | ratio | bar | held |",
        "|---|---|---|---|---|---|",
        *ROWS,
    ])
    print(table)
    if os.environ.get("OVERWRITE") == "1":
        page = REPOSITORY / "docs/performance.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{table}\n\n{END}{rest.split(END)[1]}")


REPOSITORY = Path(sys.argv[1])
LEDGER, B3SUM, DVC, MODEL_SIGNING = (os.environ[name] for name in ("LEDGER", "B3SUM", "DVC", "MODEL_SIGNING"))
DATA = Path(os.environ.get("DATA", REPOSITORY / ".cache/compare"))
DATA.mkdir(parents=True, exist_ok=True)
with tempfile.TemporaryDirectory(dir=DATA) as scratch:
    WORK = Path(scratch)
    (WORK / "home").mkdir()
    ENV = {"HOME": str(WORK / "home"), "PATH": os.environ["PATH"], "DVC_NO_ANALYTICS": "1"}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
