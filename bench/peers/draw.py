"""Pictures as SVG: the ratios with their spread and aim, and the roofline with what was reached below it."""
import math
from xml.sax.saxutils import escape

WIDTH, ROW, LEFT, RIGHT, TOP = 860, 26, 330, 40, 56
BLUE, GREY, ORANGE = "#2b6cb0", "#666", "#c05621"
PALETTE = [BLUE, "#b7472a", "#2f855a", "#805ad5", "#b7791f"]
STYLE = 'font-family="sans-serif" font-size="12"'


def line(x1, y1, x2, y2, colour="#ddd", width=1.0, dash=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"' + (f' stroke-dasharray="{dash}"' if dash else "") + "/>"


def label(x, y, text, anchor="middle", colour="#000", size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(text)}</text>'


def sheet(width, height, title, note):
    return [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" {STYLE}>',
            f'<rect width="{width}" height="{height}" fill="white"/>', label(16, 24, title, "start", size=16), label(16, 42, note, "start", GREY)]


def ratios(rows, title, note):
    """`rows`: [(label, {ratio, low, high, aim})], speeds only, so that longer is better."""
    top = max([max(s["high"], s["aim"]) for _, s in rows] + [1.0]) * 1.06
    height = TOP + ROW * len(rows) + 46
    x = lambda v: LEFT + (WIDTH - LEFT - RIGHT) * v / top
    out = sheet(WIDTH, height, title, note)
    step = 0.5 if top < 5 else 1.0 if top < 14 else 2.0
    bottom = TOP + ROW * len(rows)
    for i in range(int(top / step) + 1):
        v = i * step
        out += [line(x(v), TOP, x(v), bottom, "#333" if abs(v - 1) < 1e-9 else "#ddd"), label(x(v), bottom + 18, f"{v:g}×", colour=GREY)]
    for i, (name, s) in enumerate(rows):
        y = TOP + ROW * i + ROW / 2
        out += [label(LEFT - 12, y + 4, name, "end"), line(x(s["low"]), y, x(s["high"]), y, BLUE, 3), line(x(s["aim"]), y - 8, x(s["aim"]), y + 8, ORANGE, 2),
                f'<circle cx="{x(s["ratio"]):.1f}" cy="{y}" r="5" fill="{BLUE}"/>', label(x(s["ratio"]), y - 7, f'{s["ratio"]:.2f}', colour=BLUE, size=10)]
    out.append(label(WIDTH - RIGHT, height - 8, "speed of Isotope over the peer; line: lowest to highest pair; orange: the aim", "end", GREY))
    return "\n".join(out) + "\n</svg>\n"


def decades(low, high):
    return range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)


def roofline(limits, points, title, note):
    """`points`: [(model, mark, side, operations a byte of weights, operations a second)]; limits: {int8_ops, read_bytes}. Both axes are logarithmic."""
    width, height, left, right, top, bottom = 860, 520, 70, 30, 60, 60
    knee = limits["int8_ops"] / limits["read_bytes"]
    xs, ys = [p[3] for p in points] + [knee], [p[4] for p in points] + [limits["int8_ops"]]
    x_low, x_high, y_low, y_high = min(xs) / 2, max(xs) * 2, min(ys) / 3, limits["int8_ops"] * 2
    x = lambda v: left + (width - left - right) * math.log(v / x_low) / math.log(x_high / x_low)
    y = lambda v: height - bottom - (height - top - bottom) * math.log(v / y_low) / math.log(y_high / y_low)
    out = sheet(width, height, title, note)
    for e in decades(x_low, x_high):
        if x_low <= 10**e <= x_high:
            out += [line(x(10**e), top, x(10**e), height - bottom), label(x(10**e), height - bottom + 18, f"{10**e:g}", colour=GREY)]
    for e in decades(y_low, y_high):
        if y_low <= 10**e <= y_high:
            out += [line(left, y(10**e), width - right, y(10**e)), label(left - 6, y(10**e) + 4, f"{10**e / 1e9:g}", "end", GREY)]
    start, peak = max(x_low, y_low / limits["read_bytes"]), y(limits["int8_ops"])
    out += [line(x(start), y(start * limits["read_bytes"]), x(knee), peak, "#333", 2), line(x(knee), peak, x(x_high), peak, "#333", 2),
            label(x(x_high) - 4, peak - 6, f"int8 peak {limits['int8_ops'] / 1e9:.0f} Gop/s", "end", "#333"),
            label(x(start) + 8, y(start * limits["read_bytes"]) - 12, f"reading {limits['read_bytes'] / 1e9:.1f} GB/s", "start", "#333")]
    models = list(dict.fromkeys(p[0] for p in points))
    colours = {m: PALETTE[i % len(PALETTE)] for i, m in enumerate(models)}
    for model, mark, side, intensity, speed in points:
        px, py, ours = x(intensity), y(speed), side == "isotope"
        out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4.5" fill="{colours[model] if ours else "white"}" stroke="{colours[model]}" stroke-width="1.5">'
                   f'<title>{escape(f"{model}, {mark}: {speed / 1e9:.0f} Gop/s")}</title></circle>')
    out += spaced_labels([(x(i), y(s), mark, colours[model]) for model, mark, side, i, s in points if side == "isotope"])
    for i, model in enumerate(models):
        ly = height - bottom - 16 * (len(models) - i)
        out += [f'<circle cx="{width * 0.42:.1f}" cy="{ly - 4}" r="4.5" fill="{colours[model]}"/>', label(width * 0.42 + 10, ly, model, "start")]
    out += [label((left + width) / 2, height - 22, "operations a byte of weights (two a product)", colour=GREY), label(left - 6, top - 6, "Gop/s", "end", GREY),
            label(width - right, height - 6, "filled: Isotope; open: llama.cpp", "end", GREY)]
    return "\n".join(out) + "\n</svg>\n"


def spaced_labels(points, gap=11):
    """Labels beside points, moved down where they would cover each other. `points`: [(x, y, text, colour)]"""
    out, placed = [], []
    for px, py, text, colour in sorted(points, key=lambda p: p[1]):
        ty = py + 4
        while any(abs(ty - other) < gap and abs(px - ox) < 70 for ox, other in placed):
            ty += 2
        placed.append((px, ty))
        out.append(label(px + 9, ty, text, "start", colour, 10))
    return out
