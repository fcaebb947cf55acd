"""Rows that were measured, kept in one JSON file: a later call replaces the rows that it measures and leaves the others."""
import datetime, json, os


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def path(folder, quick):
    return os.path.join(folder, "quick.json" if quick else "results.json")


def load(file):
    if not os.path.exists(file):
        return {"rows": {}, "models": {}, "serving": []}
    with open(file) as f:
        found = json.load(f)
    return {"rows": {}, "models": {}, "serving": [], **found}


def save(file, report):
    part = file + ".part"
    with open(part, "w") as f:
        json.dump(report, f, indent=1)
        f.write("\n")
    os.replace(part, file)


def text(row, sizes):
    """The case of a row with its sizes."""
    return row.case.format(**{k: getattr(sizes, k) for k in sizes.__dataclass_fields__})


def number(value, unit):
    if value is None:
        return "–"
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if unit == "s" else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def ratio(r):
    return f"{100 * r['ratio']:.1f} %" if r["unit"] == "share" else f"{r['ratio']:.2f}"


def spread(r):
    low, high = (100 * r["low"], 100 * r["high"]) if r["unit"] == "share" else (r["low"], r["high"])
    return f"{low:.1f} – {high:.1f} %" if r["unit"] == "share" else f"{low:.2f} – {high:.2f}"


def aim(r):
    sign = "≤" if r["less"] else "≥"
    return f"{sign} {100 * r['aim']:g} %" if r["unit"] == "share" else f"{sign} {r['aim']:g}"


def table(rows):
    """Lines for a terminal."""
    out = [f"{'row':32} {'isotope':>10} {'peer':>10} {'ratio':>8}  {'spread':17} {'pairs':>5}  aim"]
    for name, r in rows.items():
        if r["status"] != "ok":
            out.append(f"{name:32} {r['status']}: {r['why']}")
            continue
        verdict = "" if r["met"] else "  short"
        out.append(f"{name:32} {number(r['isotope'], r['unit']):>10} {number(r['peer'], r['unit']):>10} {ratio(r):>8}  {spread(r):17} {len(r['pairs']):>5}  {aim(r)}{verdict}")
    return "\n".join(out)
