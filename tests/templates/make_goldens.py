#!/usr/bin/env python
"""Goldens of chat templates, made with the Jinja environment of transformers (pip install jinja2 transformers).

make_goldens.py --out DIR [--seed N]

Writes for every templates/NAME.jinja a NAME.json (case x tools x add_generation_prompt x kwargs -> out | error, msg), cases.json (messages, tools,
special tokens), expressions.json and odd.json (the lists in expressions.py) and random.json (expressions drawn from a grammar; a new seed draws
new ones). Seed 1 is what the repository holds. The clock stands at 2025-07-26 15:04:05, a Saturday."""
import argparse, json, os, random, signal, sys, warnings
from datetime import datetime

warnings.filterwarnings("ignore")
from transformers.utils.chat_template_utils import _compile_jinja_template
from cases import CASES, KWARGS, TOOLS, SPECIAL, random_cases
from expressions import EXPRESSIONS, ODD, OWN_WORDS
from random_expressions import random_expression

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = datetime(2025, 7, 26, 15, 4, 5)


def plain(x):
    return json.loads(json.dumps(x))


class TooLong(Exception):
    pass


def give_up(*_):
    raise TooLong()


def render(source, **context):
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(5)
    try:
        return {"out": _compile_jinja_template(source).render(strftime_now=NOW.strftime, **context)}
    except TooLong:
        return None
    except RecursionError:
        return None
    except Exception as e:
        return {"error": type(e).__name__, "msg": str(e)[:200]}
    finally:
        signal.alarm(0)


def template_goldens(source, cases):
    out = []
    for name, messages in cases.items():
        for tools in (None, TOOLS, []):
            for generate in (False, True):
                for kwargs in KWARGS:
                    if kwargs and (tools == [] or name not in ("sys_user", "tool_flow", "think_pending", "parts", "multi")):
                        continue
                    context = {"documents": None, **plain(kwargs)}
                    r = render(source, messages=plain(messages), tools=plain(tools), add_generation_prompt=generate, **SPECIAL, **context)
                    row = {"case": name, "add_generation_prompt": generate, **r}
                    if tools is not None:
                        row["tools"] = "all" if tools else "empty"
                    if kwargs:
                        row["kwargs"] = kwargs
                    out.append(row)
    return out


def expression_goldens(sources, skip_unprintable=False):
    out = []
    for source in sources:
        r = render(source, messages=plain(CASES["multi"]), tools=plain(TOOLS))
        if r is None or (skip_unprintable and (" at 0x" in json.dumps(r) or "built-in method" in json.dumps(r) or r.get("error") == "UnicodeEncodeError")):
            continue
        if "error" in r and (skip_unprintable or source in OWN_WORDS):
            r["exact"] = False  # that it fails is compared, the wording is not
        try:
            json.dumps(r, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # lone surrogates cannot leave as UTF-8
            continue
        out.append({"src": source, **r})
    return out


def write(path, rows):
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--random", type=int, default=1200, help="how many random expressions")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    cases = dict(CASES)
    if a.seed != 1:
        cases.update(random_cases(a.seed))
    json.dump({"cases": cases, "tools": TOOLS, "special_tokens": SPECIAL}, open(os.path.join(a.out, "cases.json"), "w"), indent=1)
    for file in sorted(os.listdir(os.path.join(HERE, "templates"))):
        source = open(os.path.join(HERE, "templates", file), encoding="utf-8", newline="").read()
        write(os.path.join(a.out, file.replace(".jinja", ".json")), template_goldens(source, cases))
    write(os.path.join(a.out, "expressions.json"), expression_goldens(EXPRESSIONS))
    write(os.path.join(a.out, "odd.json"), expression_goldens(ODD))
    rng = random.Random(a.seed)
    write(os.path.join(a.out, "random.json"), expression_goldens((random_expression(rng) for _ in range(a.random)), skip_unprintable=True))


if __name__ == "__main__":
    sys.path.insert(0, HERE)
    main()
