"""The ratios as an SVG: a dot for the median, a line for the whole spread."""

WIDTH, ROW, LEFT, RIGHT, TOP = 760, 34, 250, 40, 56


def svg(results, title, note):
    rows = [(f"{name}, {kind}", s) for name, r in results.items() for kind, s in r.items()]
    top = max([s["high"] for _, s in rows] + [1.0]) * 1.08
    height = TOP + ROW * len(rows) + 46
    x = lambda v: LEFT + (WIDTH - LEFT - RIGHT) * v / top
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>', f'<text x="16" y="24" font-size="16">{title}</text>', f'<text x="16" y="42" fill="#666">{note}</text>']
    step = 0.5 if top < 5 else 1.0
    for i in range(int(top / step) + 1):
        v = i * step
        heavy = abs(v - 1) < 1e-9
        out.append(f'<line x1="{x(v):.1f}" x2="{x(v):.1f}" y1="{TOP}" y2="{TOP + ROW * len(rows)}" stroke="{"#333" if heavy else "#ddd"}"/>')
        out.append(f'<text x="{x(v):.1f}" y="{TOP + ROW * len(rows) + 18}" text-anchor="middle" fill="#666">{v:g}×</text>')
    for i, (label, s) in enumerate(rows):
        y = TOP + ROW * i + ROW / 2
        out.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{label}</text>')
        out.append(f'<line x1="{x(s["low"]):.1f}" x2="{x(s["high"]):.1f}" y1="{y}" y2="{y}" stroke="#2b6cb0" stroke-width="3"/>')
        out.append(f'<circle cx="{x(s["ratio"]):.1f}" cy="{y}" r="6" fill="#2b6cb0"/>')
        out.append(f'<text x="{x(s["ratio"]):.1f}" y="{y - 9}" text-anchor="middle" fill="#2b6cb0">{s["ratio"]:.2f}</text>')
    out.append(f'<text x="{WIDTH - RIGHT}" y="{height - 10}" text-anchor="end" fill="#666">tokens per second of isotope over llama.cpp; line: lowest to highest pair</text></svg>')
    return "\n".join(out) + "\n"
