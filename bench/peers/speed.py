"""llama-bench and `isotope bench` in turn on the same file."""
import json, statistics, subprocess

import llama


def isotope(program, model, prompt, generate, threads):
    command = [program, "bench", "-m", model, "-p", str(prompt), "-n", str(generate), "-t", str(threads), "-r", "1", "--json"]
    return llama.speeds(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def summary(pairs):
    ratios = [a / b for a, b in pairs]
    return {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios), "isotope": statistics.median(a for a, _ in pairs),
            "llama": statistics.median(b for _, b in pairs), "pairs": pairs}


def compare(a, name, model):
    """{"prompt": summary, "generation": summary}; the first program changes from pair to pair."""
    runs = {"isotope": lambda: isotope(a.isotope, model, a.prompt, a.generate, a.threads), "llama": lambda: llama.bench(a.llama_bin, model, a.prompt, a.generate, a.threads)}
    pairs = {"prompt": [], "generation": []}
    for i in range(a.pairs):
        got = {}
        for who in (("isotope", "llama"), ("llama", "isotope"))[i % 2]:
            got[who] = runs[who]()
        for kind in pairs:
            pairs[kind].append((got["isotope"][kind], got["llama"][kind]))
        line = "   ".join(f"{kind} {p[-1][0]:.1f} / {p[-1][1]:.1f} = {p[-1][0] / p[-1][1]:.2f}" for kind, p in pairs.items())
        print(f"  {name} pair {i + 1} of {a.pairs}: {line}", flush=True)
    return {kind: summary(p) for kind, p in pairs.items()}


def table(results, a):
    sizes = {"prompt": f"prompt {a.prompt}", "generation": f"generation {a.generate}"}
    out = [f"{'model':14} {'test':16} {'isotope':>9} {'llama.cpp':>10} {'ratio':>7}   spread ({a.pairs} pairs, {a.threads} threads)"]
    for name, r in results.items():
        for kind, s in r.items():
            out.append(f"{name:14} {sizes[kind]:16} {s['isotope']:9.1f} {s['llama']:10.1f} {s['ratio']:7.2f}   {s['low']:.2f} – {s['high']:.2f}")
    return "\n".join(out)
