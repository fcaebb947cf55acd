"""Sides measured in turn. Clocks and bandwidth of a machine drift more between runs than programs differ, hence pairs with an alternating order."""
import statistics


def orders(names, rounds):
    """The order of each round: forwards, then backwards."""
    for i in range(rounds):
        yield i, list(names) if i % 2 == 0 else list(reversed(names))


def summary(values):
    """`values`: [(ours, theirs)], or [(ours, None)] for a row without a peer, whose own value is what counts."""
    ratios = [a if b is None else a / b for a, b in values]
    theirs = [b for _, b in values if b is not None]
    return {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios), "isotope": statistics.median(a for a, _ in values),
            "peer": statistics.median(theirs) if theirs else None, "pairs": [list(v) for v in values]}


def measure(sides, rounds, keep_going=lambda done: True, tell=lambda *a: None):
    """`sides`: {name: function(round) -> {metric: value}}. Returns {name: {metric: [value of each round]}} and {name: why it failed}.
    A side that fails leaves; a round counts for the sides that are whole after it. Isotope's failure ends the job."""
    got, failed = {name: {} for name in sides}, {}
    for i, order in orders(list(sides), rounds):
        if i and not keep_going(i):
            break
        now = {}
        for name in order:
            if name in failed:
                continue
            try:
                now[name] = sides[name](i)
            except Exception as e:  # a wrong answer of a program is a failure of its side, whatever its kind
                failed[name] = str(e) or type(e).__name__
                tell(i, name, None)
        if "isotope" in failed:
            break
        for name, metrics in now.items():
            if name in failed:
                continue
            for metric, value in metrics.items():
                got[name].setdefault(metric, []).append(value)
        tell(i, None, now)
        if len(failed) >= len(sides) - 1 > 0:
            break
    return got, failed
