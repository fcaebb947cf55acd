"""Random expressions and small templates, mostly well typed, for comparison with jinja2."""

STRINGS = ["''", "'a'", "'b c'", "'Hello World'", "' x '", "'é😀'", "'a,b,,c'", "'12'", "'3.5'", "'line1\\nline2'", "'<b>&'", "\"it's\"", "'ABC'", "'{}'", "'%s'"]
INTS = ["0", "1", "2", "3", "-1", "7", "10", "100"]
FLOATS = ["0.5", "2.0", "-1.5", "3.14159", "1e16", "1e-7"]
NAMES = ["messages", "tools", "missing", "x"]


class Maker:
    def __init__(self, rng):
        self.rng, self.pick = rng, rng.choice

    def string(self, d):
        r = self.rng.random()
        if d <= 0 or r < 0.25: return self.pick(STRINGS)
        s, t = self.string(d - 1), self.string(d - 1)
        return self.pick([
            lambda: f"({s} ~ {self.any(d - 1)})", lambda: f"({s} + {t})", lambda: f"({s} * {self.pick(['0', '1', '2', '3'])})",
            lambda: f"{s}.{self.pick(['upper', 'lower', 'title', 'capitalize', 'strip', 'lstrip', 'rstrip', 'swapcase', 'casefold'])}()",
            lambda: f"({s} | {self.pick(['upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'escape', 'safe', 'striptags', 'urlencode', 'reverse', 'tojson', 'indent', 'forceescape'])})",
            lambda: f"{s}.replace({t}, {self.pick(STRINGS)})", lambda: f"({s} | replace({t}, {self.pick(STRINGS)}))", lambda: f"{s}[{self.slice()}]",
            lambda: f"{s}.strip({t})", lambda: f"({self.seq(d - 1)} | join({t}))", lambda: f"({s} if {self.bool(d - 1)} else {t})",
            lambda: f"({self.any(d - 1)} | tojson{self.pick(['', '(indent=2)', '(sort_keys=true)', '(ensure_ascii=true)'])})", lambda: f"({self.any(d - 1)} | string)",
            lambda: f"({s} | truncate({self.pick(['3', '5', '8'])}, {self.pick(['true', 'false'])}, '', 0))", lambda: f"({s} | center({self.pick(INTS)}))",
            lambda: f"({s} | wordwrap({self.pick(['1', '3', '5', '9'])}))", lambda: f"({s} | default({t}, true))", lambda: f"{s}.{self.pick(['ljust', 'rjust', 'center', 'zfill'])}({self.pick(INTS)})",
            lambda: f"messages[{self.pick(['0', '1', '-1', '2'])}].{self.pick(['role', 'content'])}", lambda: f"('%s:%s' % ({self.any(d - 1)}, {t}))", lambda: f"'{{}}|{{}}'.format({self.any(d - 1)}, {t})",
            lambda: f"({self.any(d - 1)} | pprint)",
        ])()

    def slice(self):
        part = lambda: self.pick(["", "", "0", "1", "2", "-1", "-2", "5"])
        return f"{part()}:{part()}" + self.pick(["", "", ":", ":2", ":-1"])

    def number(self, d):
        r = self.rng.random()
        if d <= 0 or r < 0.3: return self.pick(INTS + FLOATS)
        a, b = self.number(d - 1), self.number(d - 1)
        return self.pick([
            lambda: f"({a} {self.pick(['+', '-', '*', '/', '//', '%'])} {b})", lambda: f"({self.any(d - 1)} | length)", lambda: f"({a} | round({self.pick(['0', '1', '2', '-1'])}))",
            lambda: f"({a} | int)", lambda: f"({a} | abs)", lambda: f"({self.string(d - 1)} | int)", lambda: f"({self.string(d - 1)} | float)", lambda: f"-{a}",
            lambda: f"({self.seq(d - 1)} | sum)", lambda: f"{self.string(d - 1)}.{self.pick(['find', 'count', 'rfind'])}({self.string(d - 1)})", lambda: f"({a} ** {self.pick(['0', '1', '2'])})",
            lambda: f"({self.string(d - 1)} | wordcount)", lambda: f"({a} if {self.bool(d - 1)} else {b})",
        ])()

    def bool(self, d):
        if d <= 0: return self.pick(["true", "false", "none"])
        return self.pick([
            lambda: f"({self.any(d - 1)} {self.pick(['==', '!='])} {self.any(d - 1)})", lambda: f"({self.number(d - 1)} {self.pick(['<', '<=', '>', '>='])} {self.number(d - 1)})",
            lambda: f"({self.string(d - 1)} {self.pick(['<', '>='])} {self.string(d - 1)})", lambda: f"({self.any(d - 1)} {self.pick(['in', 'not in'])} {self.seq(d - 1)})",
            lambda: f"(not {self.any(d - 1)})", lambda: f"({self.any(d - 1)} {self.pick(['and', 'or'])} {self.any(d - 1)})",
            lambda: f"({self.any(d - 1)} is {self.pick(['', 'not '])}{self.pick(['string', 'number', 'mapping', 'iterable', 'sequence', 'none', 'defined', 'boolean', 'integer', 'float', 'true', 'callable'])})",
            lambda: f"{self.string(d - 1)}.{self.pick(['startswith', 'endswith'])}({self.string(d - 1)})", lambda: f"{self.string(d - 1)}.{self.pick(['isdigit', 'isalpha', 'isupper', 'islower', 'isspace', 'istitle', 'isalnum'])}()",
            lambda: f"({self.string(d - 1)} in {self.string(d - 1)})", lambda: f"({self.number(d - 1)} is {self.pick(['odd', 'even', 'divisibleby(3)'])})",
        ])()

    def seq(self, d):
        if d <= 0: return self.pick(["[]", "[1, 2, 3]", "['b', 'A', 'c']", "(1, 'x')", "'abc'", "range(4)", "messages", "{'a': 1, 'b': 2}"])
        s = self.seq(d - 1)
        return self.pick([
            lambda: "[" + ", ".join(self.any(d - 1) for _ in range(self.rng.randint(0, 3))) + "]", lambda: "(" + "".join(self.any(d - 1) + ", " for _ in range(self.rng.randint(1, 3))) + ")",
            lambda: f"({s} | list)", lambda: f"({s} | sort{self.pick(['', '(reverse=true)', '(case_sensitive=true)'])})", lambda: f"({s} | unique | list)", lambda: f"({s} | reverse | list)",
            lambda: f"({s} | map('string') | list)", lambda: f"({s} | select | list)", lambda: f"({s} | reject('none') | list)", lambda: f"({s} | batch(2, 'f') | list)", lambda: f"({s} | slice(2) | list)",
            lambda: f"{self.string(d - 1)}.split({self.pick(['', repr(','), repr('a'), repr(' ') + ', 1'])})", lambda: f"{self.string(d - 1)}.splitlines()", lambda: f"({s} | list)[{self.slice()}]",
            lambda: f"(messages | map(attribute='{self.pick(['role', 'content', 'nope'])}') | list)", lambda: f"(messages | selectattr('role', 'eq', 'user') | list)", lambda: f"({self.dict(d - 1)} | dictsort)",
            lambda: f"({self.dict(d - 1)} | items | list)", lambda: f"({self.dict(d - 1)}.{self.pick(['keys', 'values', 'items'])}() | list)", lambda: f"({s} | groupby(0) | list)", lambda: f"(({s} | list) + [{self.any(d - 1)}])",
        ])()

    def dict(self, d):
        if d <= 0: return self.pick(["{}", "{'a': 1}", "{'b': 'x', 'a': [1]}", "messages[0]", "{1: 2, 'k': none}"])
        return "{" + ", ".join(f"{self.pick(STRINGS[1:6] + INTS[:4])}: {self.any(d - 1)}" for _ in range(self.rng.randint(0, 3))) + "}"

    def any(self, d):
        r = self.rng.random()
        if r < 0.3: return self.string(d)
        if r < 0.5: return self.number(d)
        if r < 0.6: return self.bool(d)
        if r < 0.75: return self.seq(d)
        if r < 0.85: return self.dict(d)
        if r < 0.9: return self.pick(NAMES)
        if r < 0.95: return f"({self.seq(d)} | {self.pick(['first', 'last', 'min', 'max'])})"
        return self.pick(["none", "true", "false", f"{self.dict(d)}.get({self.pick(STRINGS)}, {self.pick(INTS)})", f"({self.seq(d)} | list)[{self.pick(INTS)}]"])

    def statement(self, d):
        e = "{{ " + self.any(2) + " }}"
        if d <= 0: return self.pick([e, "text\n", "  ", " a ", "{# c #}\n", "\n"])
        s, t = lambda: self.pick(["{% ", "{% ", "{%- ", "{%+ "]), lambda: self.pick([" %}", " %}", " -%}", " +%}", " %}\n"])
        body = lambda: "".join(self.statement(d - 1) for _ in range(self.rng.randint(0, 3)))
        return self.pick([
            lambda: f"{s()}if {self.bool(2)}{t()}{body()}{s()}else{t()}{body()}{s()}endif{t()}",
            lambda: f"{s()}for x in {self.seq(1)}{self.pick(['', ' if x'])}{t()}{body()}{{{{ loop.index ~ loop.last ~ x }}}}{body()}{s()}endfor{t()}",
            lambda: f"{s()}set x = {self.any(2)}{t()}{body()}", lambda: f"{s()}set x{t()}{body()}{s()}endset{t()}{{{{ x }}}}", lambda: f"{s()}filter {self.pick(['upper', 'trim', 'indent'])}{t()}{body()}{s()}endfilter{t()}",
            lambda: f"{s()}macro m(a, b={self.any(1)}){t()}{body()}{{{{ a ~ b }}}}{s()}endmacro{t()}{{{{ m({self.any(1)}) }}}}", lambda: f"{s()}with x = {self.any(1)}{t()}{body()}{s()}endwith{t()}",
            lambda: f"{s()}for x, y in {self.dict(1)} | items{t()}{{{{ x ~ '=' ~ y }}}}{body()}{s()}if {self.bool(1)}{t()}{s()}{self.pick(['break', 'continue'])}{t()}{s()}endif{t()}{body()}{s()}endfor{t()}",
            lambda: f"{{{{- {self.any(2)} -}}}}", lambda: e + body(),
        ])()


def random_expression(rng):
    m = Maker(rng)
    if rng.random() < 0.6:
        return "{{ " + m.any(3) + " }}"
    return "".join(m.statement(2) for _ in range(3))
