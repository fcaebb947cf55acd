"""Expressions and small templates that jinja2 evaluates for the goldens."""

EXPRESSIONS = [
    "{{ 1 + 2 * 3 }}",
    "{{ 7 // 2 }}",
    "{{ 7 / 2 }}",
    "{{ -7 // 2 }}",
    "{{ -7 % 3 }}",
    "{{ 2 ** 10 }}",
    "{{ 1.0 }}",
    "{{ 1e20 }}",
    "{{ 0.1 + 0.2 }}",
    "{{ 10 / 5 }}",
    "{{ 3.0 * 2 }}",
    "{{ true }}",
    "{{ none }}",
    "{{ 'a' ~ 1 ~ none ~ true }}",
    "{{ \"a\" * 3 }}",
    "{{ [1,2] + [3] }}",
    "{{ {'a': 1, \"b\": [1, 'x', none, true, 1.5]} }}",
    "{{ (1,) }}",
    "{{ (1, 'a') }}",
    "{{ [] }}",
    "{{ 'it\\'s \"q\"' }}",
    "{{ ['it\\'s', \"q\\\"\", '\\n\\t\\\\'] }}",
    "{{ ['é', '😀', '\\u200b'] }}",
    "{{ 'abc'[1] }}",
    "{{ 'abc'[-1] }}",
    "{{ 'abcdef'[1:4] }}",
    "{{ 'abcdef'[::-1] }}",
    "{{ 'abcdef'[::2] }}",
    "{{ [1,2,3][-2:] }}",
    "{{ [1,2,3][:-1] }}",
    "{{ 'a' in 'abc' }}",
    "{{ 'x' not in ['x'] }}",
    "{{ 'k' in {'k': 1} }}",
    "{{ 1 < 2 < 3 }}",
    "{{ 1 == 1.0 }}",
    "{{ 'a' < 'b' }}",
    "{{ not false and true or false }}",
    "{{ '' or 'dflt' }}",
    "{{ 0 or [] or 'z' }}",
    "{{ 'x' and 'y' }}",
    "{{ 'yes' if 1 > 0 else 'no' }}",
    "[{{ 'yes' if false }}]",
    "{{ missing is defined }}",
    "{{ missing is undefined }}",
    "[{{ missing }}]",
    "{{ missing | default('d') }}",
    "{{ '' | default('d', true) }}",
    "{{ none | default('d') }}",
    "{{ 'AbC' | lower }} {{ 'AbC' | upper }} {{ 'hello world foo' | title }} {{ 'hELLO' | capitalize }}",
    "[{{ '  x ' | trim }}]",
    "{{ [3,1,2] | sort | join(',') }}",
    "{{ [3,1,2] | sort(reverse=true) | list }}",
    "{{ ['b','A','c'] | sort | join }}",
    "{{ [1,2,3] | sum }}",
    "{{ [1,2,3] | length }} {{ 'abc' | count }}",
    "{{ [1,2,3] | first }} {{ [1,2,3] | last }}",
    "{{ [1,2,2,3] | unique | list }}",
    "{{ [1,2,3] | reverse | list }} {{ 'abc' | reverse }}",
    "{{ {'b': 1, 'a': 2} | dictsort }}",
    "{{ {'b': 1, 'a': 2} | items | list }}",
    "{{ {'b': 1}.keys() | list }} {{ {'b': 1}.values() | list }}",
    "{{ {'a': 1}.get('a') }} {{ {'a': 1}.get('z') }} {{ {'a': 1}.get('z', 'd') }}",
    "{{ [{'r': 'u', 'n': 1}, {'r': 'a', 'n': 2}] | selectattr('r', 'equalto', 'u') | map(attribute='n') | list }}",
    "{{ [{'r': 'u'}, {'q': 'a'}] | selectattr('r') | list }}",
    "{{ [{'r': 'u'}, {'r': 'a'}] | rejectattr('r', 'equalto', 'u') | list }}",
    "{{ [1,2,3,4] | select('even') | list }} {{ [1,2,3,4] | reject('odd') | list }}",
    "{{ ['a','b'] | map('upper') | list }}",
    "{{ [1,0,'',none,'x'] | select | list }}",
    "{{ 'a-b-c'.split('-') }}",
    "{{ 'a  b c'.split() }}",
    "{{ 'a-b-c'.split('-', 1) }}",
    "{{ 'a-b-c'.rsplit('-', 1) }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x','c')) }}",
    "{{ 'xxabcxx'.strip('x') }} {{ 'xxabc'.lstrip('x') }} {{ 'abcxx'.rstrip('x') }}",
    "{{ 'abcabc'.replace('b', 'Z') }} {{ 'abcabc'.replace('b', 'Z', 1) }} {{ 'abcabc' | replace('b', 'Y') }}",
    "{{ 'a,b'.partition(',') }}",
    "{{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'abcb'.count('b') }}",
    "{{ 'abc'.upper() }} {{ 'ABC'.lower() }} {{ 'abc'.title() }} {{ 'aBC'.capitalize() }}",
    "{{ ','.join(['a','b']) }}",
    "{{ 'x'.isdigit() }} {{ '12'.isdigit() }} {{ 'ab'.isalpha() }}",
    "{{ '%s-%d' % ('a', 3) }} {{ '%05.2f' % 3.14159 }}",
    "{{ '{} {x}'.format(1, x=2) }}",
    "{{ 'abc' | format }}",
    "{{ '%s and %s' | format('a', 'b') }}",
    "{{ 3.7 | int }} {{ '42' | int + 1 }} {{ 'x' | int(7) }} {{ '3.5' | float }}",
    "{{ 3.14159 | round(2) }} {{ 2.5 | round }} {{ 3.2 | round(0, 'ceil') }}",
    "{{ -3 | abs }}",
    "{{ 5 | string ~ 'x' }}",
    "{{ 'abc' | list }}",
    "{{ [[1,2],[3]] | map('length') | list }}",
    "{{ [1,2,3] | batch(2) | list }}",
    "{{ {'a': [1, {'b': 'é<>&\\''}], 'z': none, 't': true, 'f': 1.0, 'i': 10} | tojson }}",
    "{{ {'b': 1, 'a': [1,2]} | tojson(indent=2) }}",
    "{{ [] | tojson(indent=2) }}{{ {} | tojson(indent=2) }}",
    "{{ 'é😀\\u2028\"\\\\/\\b\\f\\n\\r\\t\\x01\\x7f' | tojson }}",
    "{{ 'é😀' | tojson(ensure_ascii=true) }}",
    "{{ {'b':1,'a':2} | tojson(sort_keys=true) }}",
    "{{ [1,2] | tojson(separators=(',',':')) }}",
    "{{ '<a href=\"x\">&\\'</a>' | e }}",
    "{{ '<b>' | safe }}",
    "{{ 1 is number }} {{ 1.5 is float }} {{ 1 is integer }} {{ true is boolean }} {{ 'x' is string }} {{ {} is mapping }} {{ [] is sequence }} {{ 'x' is iterable }} {{ none is none }} {{ 1 is odd }} {{ 4 is divisibleby(2) }} {{ 1 is eq(1) }} {{ 2 is in([1,2]) }} {{ 'a' is sameas('a') }} {{ true is number }} {{ true is integer }} {{ true is true }} {{ 1 is true }} {{ 'ABC' is upper }} {{ namespace is callable }}",
    "{{ range(5) | list }} {{ range(2, 8, 3) | list }} {{ range(3, 0, -1) | list }}",
    "{{ dict(a=1, b='x') }}",
    "{{ namespace(a=1).a }}",
    "{% set x = 5 %}{{ x }}",
    "{% set x, y = 1, 2 %}{{ x + y }}",
    "{% set b %}block {{ 1 + 1 }}{% endset %}[{{ b }}]",
    "{% set b | upper %}abc{% endset %}{{ b }}",
    "{% for i in [1,2,3] %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for i in [] %}x{% else %}empty{% endfor %}",
    "{% for i in range(6) if i is even %}{{ loop.index }}:{{ i }}/{{ loop.length }} {% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for i in 'abc' %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }} {{ loop.previtem }} {{ loop.nextitem }} {{ loop.cycle('x','y') }};{% endfor %}",
    "{% for i in [1,1,2] %}{{ loop.changed(i) }}{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% set v = 1 %}{% for i in [1,2] %}{% set v = v + 1 %}{% endfor %}{{ v }}",
    "{% set ns = namespace(v=1) %}{% for i in [1,2] %}{% set ns.v = ns.v + i %}{% endfor %}{{ ns.v }}",
    "{% for row in [[1,2],[3]] %}{% for c in row %}{{ loop.index }}{{ c }}{% endfor %};{{ loop.depth }}{% endfor %}",
    "{% for i in [1,[2,[3]]] recursive %}{{ loop(i) if i is iterable else i }}{% endfor %}",
    "{% macro m(a, b='d', c=none) %}{{ a }}-{{ b }}-{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }} {{ m(1, c=2) }} {{ m(1,2,3,4, z=5) }}",
    "{% macro w() %}[{{ caller() }}]{% endmacro %}{% call w() %}in{% endcall %}",
    "{% macro w() %}{{ caller('p') }}{% endmacro %}{% call(x) w() %}<{{ x }}>{% endcall %}",
    "{% if 0 %}a{% elif '' %}b{% elif [0] %}c{% else %}d{% endif %}",
    "{% filter upper %}abc {{ 'd' }}{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}",
    "{% raw %}{{ not }} {% raw %}{% endraw %}",
    "{# comment #}x{#- trim -#} y",
    "{{- '  a' -}}  b {{ 'c' }}",
    "a {%- if true -%} b {%- endif -%} c",
    "  {%- set z = 1 %}  {{ z }}",
    "{{ \"a\\nb\\tc\\\\d\\\"e\\x41\\u00e9\" }}",
    "{{ 'a' 'b' }}",
    "{{ [1, 2, 3,] }} {{ {'a': 1,} }}",
    "{{ 1_000 }}",
    "{{ 0x1f }} {{ 0b101 }} {{ 0o17 }}",
    "{{ 1.5e3 }} {{ 12345678901234567890 }} {{ 1e-7 }} {{ 123456789.123456789 }} {{ 1e16 }} {{ 1e15 }}",
    "{{ foo.bar is defined }}",
    "{{ {'items': 1}.items is callable }} {{ {'items': 1}['items'] }}",
    "{{ messages[0].role }} {{ messages[0]['role'] }} {{ messages[0].nope is defined }} {{ messages[-1].content }}",
    "{{ messages | map(attribute='role') | join(',') }}",
    "{{ messages | selectattr('role', 'in', ['user']) | list | length }}",
    "{{ messages[0] | tojson }}",
    "{{ (messages | last).content[:3] }}",
    "{{ messages | groupby('role') | list | length }}",
    "{{ 'x' | indent(2) }}",
    "{{ 'a\\nb\\n\\nc' | indent(2) }}",
    "{{ 'a\\nb' | indent(2, true) }}",
    "{{ 'hello world this is long' | truncate(12) }}",
    "{{ 'a b c' | wordcount }}",
    "{{ 'a b' | urlencode }}",
    "{{ '<p>x</p>' | striptags }}",
    "{{ 'ab' | center(6) }}",
    "{{ [1,2] | min }} {{ [1,2] | max }}",
    "{{ 'x' | attr('upper') is defined }}",
    "{{ strftime_now('%Y-%m-%d %H:%M %d %B %b %A %a %j %p %I %y %-d') }}",
    "{{ 'a' if x is defined else 'b' }}",
    "{{ x.y.z }}",
    "{{ raise_exception('boom') }}",
    "{{ none.x }}",
    "{{ [][0] }}",
    "[{{ [][5] }}]",
    "{{ {}['a'] }}",
    "{{ 'a' + 1 }}",
    "{{ 1 + none }}",
    "{% for i in none %}{% endfor %}",
    "{{ unknownfunc() }}",
    "{{ 'x' | nofilter }}",
    "{{ 1 is notest }}",
    "{{ ( }}",
    "{{ 'abc'.__class__ }}",
    "{{ [1,2].append(3) }}",
    "{{ 'é'.encode('utf-8') }}",
    "{{ 'a'|join('b') }}",
    "{{ 'ß'|upper }} {{ 'İ'|lower }} {{ 'ǆ'|title }}",
    "a\n{% if true %}\n  b\n  {% endif %}\nc\n    {% set q = 1 %}   \n d {{ q }}\n",
    "{# c #}\n x\n",
    "{% if %}",
]

# One line each: what a careless engine gets wrong.
ODD = r"""
{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 2 ** -1 }} {{ -7 // 2 }} {{ -7.5 // 2 }} {{ 7 % -3 }} {{ -7.5 % 2 }} {{ 5.0 // 0.3 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1.0 % 0 }}
{{ 0 ** -1 }}
{{ true + true }} {{ true * 'ab' }} {{ [1] * 2 }} {{ 2 * (1, 2) }} {{ 'x' * -1 }}|
{{ 'x' * 1.5 }}
{{ [1] + (2,) }}
{{ 1 ~ 2 ~ none ~ 3.0 ~ [] ~ missing }}
{{ 1 + 2 ~ 3 + 4 }}
{{ 3 > 2 > 1 }} {{ 1 < 3 < 2 }} {{ 1 < 2 == true }} {{ 1 in [1] == true }} {{ not 1 == 2 }}
{{ [1, 2] < [1, 3] }} {{ (1, 2) < (1,) }} {{ 'a' < 'B' }} {{ 'é' > 'z' }} {{ '😀' > '\uffee' }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ {} < {} }}
{{ 1 == true }} {{ 0 == false }} {{ '1' == 1 }} {{ none == false }} {{ [1.0] == [1] }} {{ (1,) == [1] }} {{ {1: 'a'} == {1.0: 'a'} }} {{ {'a':1,'b':2} == {'b':2,'a':1} }}
{{ missing == missing2 }} {{ missing == none }} {{ missing != '' }}
{{ missing < 1 }}
{{ missing + 1 }}
{{ 'a' + missing }}
{{ missing ~ 'a' }} {{ missing | length }} {{ missing | list }} {{ missing | join }} {{ missing is iterable }} {{ missing is sequence }} {{ missing is callable }} {{ missing is mapping }}
{% for x in missing %}x{% else %}none{% endfor %}
{{ missing.x }}
{{ missing['x'] }}
{{ missing() }}
{{ missing | upper }}|{{ missing | trim }}|{{ missing | default }}|{{ missing | string }}|{{ missing | first }}|{{ missing | sum }}
{{ missing | int }}
{{ missing | abs }}
{{ missing | tojson }}
{{ [missing] }} {{ {'a': missing} }}
{{ messages[0].foo }}|{{ messages[0].foo is defined }}|{{ messages[99] }}|{{ messages['x'] }}|{{ messages[0][0] }}
{{ messages[99].role }}
{{ messages[0].foo.bar }}
{{ messages.role }}|{{ messages.0.role }}|{{ 'abc'.1 }}
{{ {'a': {'b': 1}}.a.b }} {{ {'a': 1}['a'] }} {{ {1: 2}[1] }} {{ {1: 2}[1.0] }} {{ {1: 2}[true] }} {{ {'get': 5}.get is callable }}|{{ {'get': 5}['get'] }}
{{ {[]: 1} }}
{{ {}[[]] }}|{{ [1][none] }}|{{ 'abc'['x'] }}|{{ 5[0] }}|{{ none[0] }}
{{ 'abcdef'[-3:] }} {{ 'abcdef'[:-10] }}| {{ 'abcdef'[10:] }}| {{ 'abcdef'[4:1:-1] }} {{ 'abcdef'[::-2] }} {{ 'aé😀b'[1:3] }} {{ 'aé😀b'[-2] }} {{ 'aé😀b'[::-1] }} {{ [1,2,3][5:] }} {{ range(10)[2:8:3] }} {{ range(10)[::-1] | list }} {{ (1,2,3)[1:] }} {{ (1,2,3)[:1] }}
{{ 'abc'[::0] }}
{{ 'abc'['a':] }}
{{ none[1:] }}
{{ {}[1:] }}
{{ missing[1:] }}
{{ 'abc'[true] }} {{ [1,2][false] }} {{ [1,2,3][none:2] }}
{{ 'a' 'b' "c" }} {{ 'a\
b' }} {{ '\x41\u0042\U00000043\101\q\é' }} {{ "\a\b\f\v\0" | tojson }}
{{ '\N{BULLET' }}
{{ '\x4' }}
{{ 1_000 + 0x_ff + 0b1_0 + 0o17 }} {{ 1e3 }} {{ 1.5E-3 }} {{ 1_0.5_0 }} {{ 00 }} {{ 1.e }}
{{ 012 }}
{{ 1.0 }} {{ 100000000000000000.0 }} {{ 1e15 }} {{ 1e16 }} {{ 123456789012345680.0 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1e300 * 1e10 }} {{ -1e300 * 1e10 }} {{ 1e-320 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 0.1 + 0.7 }} {{ 1/3 }} {{ 2/3 }} {{ 1e22 }} {{ 1e23 }} {{ -0.0 }} {{ 0.0 * -1 }}
{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ 9223372036854775808 }} {{ -9223372036854775809 }} {{ 123456789012345678901234567890 }} {{ [99999999999999999999] | tojson }} {{ 1e20 | int }} {{ 99999999999999999999 > 5 }} {{ 99999999999999999999 == 99999999999999999999 }} {{ '99999999999999999999' | int }}
{{ 'a' if false }}|{{ ('a' if false) is defined }}|{{ 'a' if true else 'b' if false else 'c' }} {{ ('a' if 0 else 'b') ~ 'x' }} {{ 1 if [] else 2 }}
{{ ('a' if false).x }}
{{ not not 1 }} {{ not [] and 1 }} {{ 0 and missing.x }} {{ 1 or missing.x }} {{ none or '' }}|{{ [] and 1 }} {{ 1 and 2 and 3 }} {{ 0 or 0.0 or '' or none or {} }}
{{ (1) }} {{ () }} {{ (1,) }} {{ ((1, 2), [3, (4,)]) }} {{ {'a': (1,), 'b': {}} }}
{{ 1, 2 }} {{ 1, }} {{ (1, 2,) }}
{{ {'a': 1, 'a': 2} }} {{ {1: 1, true: 2, 1.0: 3} }} {{ {none: 1, (1, 2): 2} }}
{{ ["a'b", 'a"b', "a'\"b", 'a\\b', '\x7f', '\x80', '\xa0', '\xad', '\u2028', '\ufeff', '\U0001f600', '\U000e0001'] }}
{{ [1.0, 1e16, none, true, missing, range(3), {'a'}] }}
{{ 'straße'.upper() }} {{ 'ŉ'.upper() }} {{ 'ﬁ'.title() }} {{ 'ΑΣ'.lower() }} {{ 'ΑΣΑ'.lower() }} {{ 'Σ'.lower() }} {{ 'İ'.lower() | length }} {{ 'ß'.casefold() }} {{ 'ǆ'.capitalize() }} {{ "they're bill's".title() }} {{ "they're bill's" | title }} {{ 'x-y (z) [w] <v>{u}' | title }} {{ 'aBc dEf'.swapcase() }} {{ 'ÀÉ'.lower() }} {{ 'éà' | upper }} {{ 'ÉÀ' | capitalize }}
{{ ' \t\n\x0b\x0c\r\x1c\x85\xa0\u2003x\u3000 ' | trim }}| {{ 'xyxabcyx'.strip('xy') }} {{ 'aéb'.strip('éa') }} {{ '  a '.lstrip() }}| {{ ' a '.rstrip() }}| {{ 'abc'.strip('') }} {{ 'abc'.strip(none) }} {{ '..a..' | trim('.') }}
{{ 'abc'.strip(1) }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ ' a  b '.split(' ') }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a b c d'.split(none, 2) }} {{ ' a b c d '.split(maxsplit=2) }} {{ ' a b c d '.rsplit(none, 2) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a,b,c'.split(',', 0) }} {{ 'a<sep>b<sep>c'.split('<sep>', 1) }} {{ 'a\nb\r\nc\rd\x0be\x85f\u2028g'.splitlines() }} {{ 'a\n\nb\n'.splitlines(true) }} {{ 'aXbXc'.partition('X') }} {{ 'aXbXc'.rpartition('X') }} {{ 'abc'.partition('X') }} {{ 'abc'.rpartition('X') }}
{{ 'a'.split('') }}
{{ 'a'.split(1) }}
{{ 'aaa'.replace('a', 'b', 2) }} {{ 'abc'.replace('', '-') }} {{ 'abc'.replace('', '-', 2) }} {{ ''.replace('', 'x') }} {{ 'aXbX' | replace('X', '') }} {{ 12321 | replace(2, 'x') }} {{ 'aaaa' | replace('aa', 'b', 1) }} {{ 'éé'.replace('', '.') }}
{{ 'a'.replace('a') }}
{{ 'a'.replace('a', 1) }}
{{ 'abcabc'.find('c', 3) }} {{ 'abcabc'.find('c', -1) }} {{ 'abc'.find('', 3) }} {{ 'abc'.find('', 4) }} {{ 'aébé'.rfind('é') }} {{ 'aébé'.index('b') }} {{ 'abab'.count('ab') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ 'abcb'.rindex('b') }} {{ 'é😀é'.find('é', 1) }}
{{ 'abc'.index('z') }}
{{ 'abc'.startswith('b', 1) }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('') }} {{ 'abc'.startswith('', 4) }} {{ 'abc'.endswith('c', 0, 2) }}
{{ 'abc'.startswith(['a']) }}
{{ 'abc'.startswith(('a', 1)) }} {{ 'abc'.startswith((1, 'a')) }}
{{ 'ab'.ljust(5, '.') }} {{ 'ab'.rjust(5) }} {{ 'ab'.center(5, '*') }} {{ 'abc'.center(6, '*') }} {{ '-5'.zfill(4) }} {{ '5'.zfill(3) }} {{ 'a\tb'.expandtabs(4) }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('bc') }} {{ 'ab' | center(7) }}|
{{ 'ab'.ljust(5, 'xy') }}
{{ 'a1'.isalnum() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '½'.isnumeric() }} {{ ''.isalpha() }} {{ ' \n'.isspace() }} {{ 'Ab'.istitle() }} {{ 'AB'.isupper() }} {{ 'a1'.islower() }} {{ '1'.islower() }} {{ 'é'.isascii() }} {{ 'a b'.isidentifier() }} {{ 'a_b'.isidentifier() }} {{ '\n'.isprintable() }} {{ ''.isprintable() }} {{ 'ǅ'.istitle() }} {{ 'ª'.islower() }}
{{ ', '.join(['a', 'b']) }} {{ ''.join('abc') }} {{ '-'.join({'a': 1, 'b': 2}) }} {{ '-'.join([]) }}|{{ [1, none, 'x'] | join('-') }} {{ [[1], {'a': 2}] | join(',') }} {{ {'a': 1, 'b': 2} | join(',') }} {{ 'abc' | join('.') }} {{ [{'n': 1}, {'n': 2}] | join(',', attribute='n') }} {{ [{'n': {'m': 1}}, {'n': {'m': 2}}] | join(',', 'n.m') }} {{ [[5, 6], [7, 8]] | join(',', attribute=1) }}
{{ ', '.join([1]) }}
{{ ', '.join(5) }}
{{ '%s' % 'a' }} {{ '%s %s' % ('a', 1) }} {{ '%d' % 3.9 }} {{ '%5d|%-5d|%05d|%+d|% d' % (42, 42, 42, 42, 42) }} {{ '%x %X %o %#x %#o' % (255, 255, 8, 255, 8) }} {{ '%e %E %g %G' % (12345.678, 12345.678, 1e-10, 1e20) }} {{ '%.3f %10.2f %-10.1f| %+.1f' % (3.14159, 2.5, 2.5, 2.5) }} {{ '%r %s %a' % ('a', none, 'b') }} {{ '%c%c' % (65, 'B') }} {{ '%%' % () }} {{ '%.2s|%5s|%-5s|' % ('abcdef', 'ab', 'ab') }} {{ '%(a)s-%(b)05.1f' % {'a': 1, 'b': 2.25} }} {{ '%*d' % (5, 42) }} {{ '%.*f' % (2, 3.14159) }} {{ '%s' % [1, 2] }} {{ '%s' % {'a': 1} }} {{ '%i' % true }} {{ '%5.1f%%' % 99.55 }} {{ '%s' % missing }}|{{ '%#.0f %#g' % (3, 1) }}
{{ '%d' % 'a' }}
{{ '%s %s' % ('a',) }}
{{ '%s' % ('a', 'b') }}
{{ '%(a)s' % {'b': 1} }}
{{ '%(a)s' % 5 }}
{{ '%y' % 5 }}
{{ '%' % 5 }}
{{ '%x' % 1.5 }}
{{ '%f' % 'a' }}
{{ 'abc' % 5 }}
{{ '{} {}'.format(1, 'a') }} {{ '{1} {0}'.format('a', 'b') }} {{ '{a}{b}'.format(a=1, b=2) }} {{ '{{}} {}'.format(1) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('ab', 'ab', 'ab', 'ab') }} {{ '{:5d}|{:05d}|{:+}|{:,}|{:_}|{:x}|{:#b}|{:o}'.format(42, 42, 42, 1234567, 1234567, 255, 5, 8) }} {{ '{:.2f} {:10.3f} {:e} {:g} {:.0%} {:,.2f} {:.3} {}'.format(3.14159, 2.5, 12345.678, 1e-10, 0.256, 1234567.891, 3.14159, 1.0) }} {{ '{0.role} {0[content]} {1[0]}'.format(messages[0], [7]) }} {{ '{!r} {!s}'.format('a', 'a') }} {{ '{:{w}}|'.format('a', w=4) }} {{ '{:.2}'.format('abcdef') }} {{ '{}'.format(none) }} {{ '{} {}'.format(true, [1]) }} {{ '{:d}'.format(true) }} {{ '{:>4}'.format(true) }} {{ '{:=+6d}'.format(42) }} {{ '{:é>4}'.format('a') }} {{ '{x}'.format_map({'x': 1}) }} {{ '{:.1f}'.format(2) }} {{ '{:c}'.format(65) }} {{ '{:>6.1f}'.format(-2.25) }} {{ '{: }'.format(3) }}
{{ '{}'.format() }}
{{ '{a}'.format(1) }}
{{ '{'.format(1) }}
{{ '}'.format(1) }}
{{ '{0} {}'.format(1) }}
{{ '{:d}'.format('a') }}
{{ '{:s}'.format(1) }}
{{ '{:>5}'.format([1]) }}
{{ '{0.__class__}'.format(1) }}|
{{ ['b', 'A', 'c', 'a', 'B'] | sort }} {{ ['b', 'A', 'c', 'a', 'B'] | sort(case_sensitive=true) }} {{ ['b', 'A'] | sort(true) }} {{ [{'n': 2, 'k': 'b'}, {'n': 1, 'k': 'c'}, {'n': 2, 'k': 'a'}] | sort(attribute='n') }} {{ [{'n': 2, 'k': 'b'}, {'n': 1, 'k': 'c'}, {'n': 2, 'k': 'a'}] | sort(attribute='n,k') | map(attribute='k') | join }} {{ [3, 1.5, true, 2] | sort }} {{ 'hello' | sort | join }} {{ [[2, 1], [1, 2]] | sort(attribute=1) }} {{ [(1, 'b'), (1, 'a')] | sort }} {{ {'b': 1, 'a': 2} | sort }} {{ [2,1,3] | sort(reverse=1) }}
{{ [1, 'a'] | sort }}
{{ [none, 1] | sort }}
{{ [{'a': 1}, {}] | sort(attribute='a') }}
{{ {'b': 1, 'A': 2, 'a': 3} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'A': 2} | dictsort(by='value') }} {{ {'b': 1, 'A': 2} | dictsort(false, 'key', true) }}
{{ {'b': 1} | dictsort(by='x') }}
{{ [1] | dictsort }}
{% for k, v in [{'t': 'a', 'n': 1}, {'t': 'B', 'n': 2}, {'t': 'A', 'n': 3}] | groupby('t') %}{{ k }}:{{ v | map(attribute='n') | join(',') }};{% endfor %}{% for g in [{'t': 'a'}, {'t': 'A'}] | groupby('t', case_sensitive=true) %}{{ g.grouper }}={{ g.list }};{% endfor %}{{ [{'t': 1}, {}] | groupby('t', default=0) }}
{{ [1, 'a', 'A', 1.0, true, 'a'] | unique | list }} {{ ['a', 'A'] | unique(true) | list }} {{ [{'n': 1}, {'n': 1}] | unique(attribute='n') | list }}
{{ [[1], [1]] | unique | list }}
{{ [1, 2, 3, 4, 5] | batch(2, 'x') | list }} {{ [1, 2, 3, 4, 5] | slice(2) | list }} {{ [1, 2, 3, 4, 5] | slice(3, 'x') | list }} {{ [] | batch(2) | list }} {{ 'abcde' | batch(2) | map('join') | list }} {{ range(7) | slice(3) | list }}
{{ [3, 1, 2] | min }} {{ ['b', 'A'] | min }} {{ ['b', 'A'] | max(case_sensitive=true) }} {{ [] | min }}|{{ [{'n': 1}, {'n': 3}] | max(attribute='n') }} {{ 'hello' | max }}
{{ [1, 'a'] | min }}
{{ [1, 2, 3] | sum(start=10) }} {{ [{'n': 1}, {'n': 2}] | sum('n') }} {{ [[1], [2]] | sum(start=[]) }} {{ [1.5, 2] | sum }} {{ [] | sum }}
{{ ['a'] | sum }}
{{ [1, 2, 3] | first }} {{ 'abc' | last }} {{ {'a': 1} | first }} {{ [] | first }}|{{ [] | last }}|{{ range(3) | last }} {{ {'a': 1, 'b': 2} | last }}
{{ ([1, 2] | map('string')) | last }}
{{ [1, 2] | map('string') | length }}
{{ [1, 2, 3] | reverse | list }} {{ 'aé😀' | reverse }} {{ range(3) | reverse | list }} {{ {'a': 1, 'b': 2} | reverse | list }} {{ ([1, 2] | map('string')) | reverse }}
{{ 5 | reverse }}
{{ ['a', 'b'] | map('upper') | join }} {{ ['a-b'] | map('replace', '-', '+') | list }} {{ [{'a': 1}, {}] | map(attribute='a', default='z') | list }} {{ [[1, 2], [3, 4]] | map('first') | list }} {{ [[1, 2]] | map(attribute=1) | list }} {{ ['x'] | map('default', 'y') | list }} {{ [3, 1] | map('string') | sort | list }} {{ [1.234] | map('round', 1) | list }} {{ [{'a': {'b': 5}}] | map(attribute='a.b') | list }} {{ ['a'] | map('indent', width=2, first=true) | list }}
{{ [1] | map('nope') | list }}
{{ [1] | map() | list }}
{{ [1] | map(attribute='a', foo=1) | list }}
{{ [1, 2, 3] | select('>', 1) | list }} {{ [1, 2, 3] | reject('in', [2]) | list }} {{ [1, 2, 3] | select('divisibleby', 3) | list }} {{ [{'a': 1}, {'a': 0}, {}] | selectattr('a') | list }} {{ [{'a': 1}, {'b': 1}] | selectattr('a', 'defined') | list }} {{ [{'a': 1}, {'a': 2}] | rejectattr('a', '==', 1) | list }} {{ [{'a': {'b': 1}}] | selectattr('a.b', 'eq', 1) | list }} {{ ['', 'x'] | reject | list }} {{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join('|') }} {{ messages | rejectattr('role', 'in', ['user', 'system']) | list | length }} {{ [none, 1] | select('none') | list }} {{ ['a', 1] | select('string') | list }}
{{ [1] | select('nope') | list }}
{{ [1] | selectattr() | list }}
{% set g = [1, 2] | map('string') %}{{ g | list }}{{ g | list }}{{ g is iterable }}{{ g is sequence }}{{ 'x' if g else 'y' }}
{% set g = [1, 2, 3] | select('odd') %}{% for x in g %}{{ x }}{{ loop.last }}{{ loop.length }};{% endfor %}
{{ 42.55 | round(1, 'floor') }} {{ 42.55 | round(1, 'ceil') }} {{ 0.5 | round }} {{ 1.5 | round }} {{ -0.5 | round }} {{ 2.675 | round(2) }} {{ 1234.5 | round(-2) }} {{ 5 | round }} {{ 15 | round(-1) }} {{ 25 | round(-1) }} {{ 7 | round(0, 'floor') }} {{ 7 | round(1, 'ceil') }} {{ 1e300 | round(2) }} {{ true | round }} {{ 2.5 | round | int }}
{{ 1 | round(1, 'x') }}
{{ 'a' | round }}
{{ '0x1f' | int(0, 16) }} {{ '0b11' | int(base=2) }} {{ ' 42 ' | int }} {{ '1_000' | int }} {{ '42.9' | int }} {{ 'abc' | int }} {{ 'abc' | int('d') }} {{ none | int }} {{ [] | int(3) }} {{ true | int }} {{ -3.9 | int }} {{ 'inf' | int(1) }} {{ '' | int }} {{ '-7' | int }} {{ '+7' | int }} {{ '1e3' | int }} {{ '5' | float }} {{ 'x' | float }} {{ none | float(1.5) }} {{ '1e400' | float }} {{ '-inf' | float }} {{ 'nan' | float }} {{ ' 1_0.5 ' | float }} {{ true | float }} {{ '1__0' | int(9) }} {{ '_1' | int(9) }}
{{ (1e308 * (messages | length) * 10) | int }}
{{ -5 | abs }} {{ -2.5 | abs }} {{ (-5) | abs }} {{ true | abs }}
{{ -'a' | length }}
{{ 'a' | abs }}
{{ 0 | filesizeformat }} {{ 1 | filesizeformat }} {{ 999 | filesizeformat }} {{ 1000 | filesizeformat }} {{ 1500000 | filesizeformat }} {{ 1024 | filesizeformat(true) }} {{ 123456789012 | filesizeformat }} {{ '5000' | filesizeformat }} {{ 1e30 | filesizeformat }}
{{ 'hello world foo bar' | truncate(9) }} {{ 'hello world foo bar' | truncate(9, true) }} {{ 'hello world foo bar' | truncate(11, false, '!', 0) }} {{ 'short' | truncate(3) }} {{ 'hello' | truncate(3, leeway=0, end='') }} {{ 'aaaaaaaaaaaaaaaaaaaa' | truncate(10) }} {{ 'éééééééééé éééééééé' | truncate(8, true, '…', 0) }}
{{ 'x' | truncate(1) }}
{{ 'a\nb\n\n c\r\nd' | indent }} {{ 'a\nb' | indent('>> ') }} {{ 'a\n\nb' | indent(2, true, true) }} {{ '' | indent(2, true) }}| {{ 'a\n' | indent(2) }}| {{ 'a\nb' | indent(width=1, blank=true) }} {{ 'a\nb' | indent(first=true) }}
{{ 5 | indent }}
{{ 'The quick brown fox jumps over the lazy dog' | wordwrap(10) }} {{ 'aaaaaaaaaaaa bb' | wordwrap(5) }} {{ 'aaaaaaaaaaaa bb' | wordwrap(5, false) }} {{ 'well-known state-of-the-art thing -- here' | wordwrap(12) }} {{ 'a b\nc d e f' | wordwrap(3, wrapstring='|') }} {{ 'well-known-thing' | wordwrap(6, break_on_hyphens=false) }} {{ '  lead  and   trail  ' | wordwrap(8) }}| {{ '' | wordwrap }}| {{ 'éé ÀÀ ßß' | wordwrap(4) }}
{{ 'a b  c\nd-e f_g 1' | wordcount }} {{ "it's" | wordcount }} {{ 'é ü' | wordcount }}
{{ 'a b/c?d=é&e' | urlencode }} {{ {'a b': 'c/d', 'e': 1} | urlencode }} {{ [('a', 1), ('b', 'x y')] | urlencode }} {{ 5 | urlencode }} {{ 'a~b-c.d_e' | urlencode }}
{{ '<b>x</b> &amp; <!-- c --> y  z &lt;&#65;&#x42;' | striptags }} {{ 'a < b' | striptags }} {{ '<a><b' | striptags }}
{{ {'a': 1, 'b': none, 'c': '<&">', 'd': missing} | xmlattr }} {{ {'a': 1} | xmlattr(false) }} {{ {} | xmlattr }}|
{{ {'a b': 1} | xmlattr }}
{{ '<a>' | e }} {{ '<a>' | escape | escape }} {{ ('<a>' | e) | forceescape }} {{ '<a>' | safe | e }} {{ ('<a>' | safe) ~ '<b>' }} {{ ('<a>' | safe) + '<b>' }} {{ '<b>' + ('<a>' | safe) }} {{ [('<a>' | safe)] }} {{ '<a>' | safe is escaped }} {{ '%s' | safe % '<x>' }} {{ ('<%s>' | safe) % ('<x>',) }} {{ ('-' | safe).join(['<', '>']) }} {{ ('<a>' | safe).upper() }} {{ ('<a>' | safe) * 2 }} {{ ('{}<' | safe).format('<') }} {{ 5 | e }} {{ none | e }} {{ ['<'] | e }} {{ ('<a>' | safe) | upper is escaped }} {{ ('a<b' | safe).replace('a', '<') }} {{ ('<x>' | safe)[0] is escaped }} {{ ('<x>' | safe) | tojson }} {{ ('<x>' | safe) == '<x>' }} {{ (('<x>' | safe) | string) is escaped }} {{ ('a,b' | safe).split(',') }}
{{ [1, 2.0, 'é"\\/\n\x00\x1f\x7f', none, true, {'a': {}}, [], (1, 2)] | tojson }} {{ {'b': [1, {'c': 2}], 'a': {}} | tojson(indent=1) }} {{ {'b': [1, {'c': 2}], 'a': []} | tojson(indent='--') }} {{ [1, [2]] | tojson(indent=0) }} {{ [1] | tojson(indent=true) }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ [1, 2] | tojson(separators=(' , ', ' : ')) }} {{ {'a': 1} | tojson(indent=2, separators=(',', '=')) }} {{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true) }} {{ 'é😀\u2028' | tojson(true) }} {{ '\x7f' | tojson(ensure_ascii=true) }} {{ 1e16 | tojson }} {{ 'nan' | float | tojson }} {{ '-inf' | float | tojson }} {{ [1] | tojson(indent=none) }} {{ 'x' | tojson(false, 2) }} {{ '</script>&\'' | tojson }}
{{ range(3) | tojson }}
{{ {(1, 2): 3} | tojson }}
{{ [namespace] | tojson }}
{{ ['a'] | map('upper') | tojson }}
{{ {'b': 1, 2: 3} | tojson(sort_keys=true) }}
{{ 1 is odd }} {{ 1.5 is odd }} {{ 0 is even }} {{ -1 is odd }} {{ 6 is divisibleby 3 }} {{ 6 is not divisibleby(4) }} {{ 'a' is in 'abc' }} {{ 1 is in [1] }} {{ 'a' is in ['b'] }} {{ 1 is eq 1 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is ge 2 }} {{ 'x' is sameas 'x' }} {{ none is sameas none }} {{ [] is sameas [] }} {{ 'upper' is filter }} {{ 'x' is filter }} {{ 'odd' is test }} {{ 'aB' is lower }} {{ 5 is lower }} {{ 1 is true }} {{ true is true }} {{ none is not none }} {{ 'a' is not number }} {{ 1 is string or 2 is number }} {{ dict is callable }} {{ 'a'.upper is callable }} {{ range(1) is iterable }} {{ range(1) is sequence }} {{ {}.keys() is sequence }} {{ 5 is mapping }} {{ 1 is integer and 1.0 is float }} {{ true is integer }} {{ none is undefined }}
{{ 'a' is odd }}
{{ 1 is in 5 }}
{{ 1 is divisibleby 0 }}
{{ 1 is odd is even }}
{{ range(0) | list }} {{ range(5, 0, -2) | list }} {{ range(-2, 2) | list }} {{ range(3) }} {{ range(1, 5, 2) }} {{ 3 in range(5) }} {{ range(5)[-1] }} {{ range(5) | length }} {{ range(3) == range(3) }} {{ range(0, 10, 3).step }} {{ range(5).index(3) }}
{{ range(100001) }}
{{ range(1, 2, 0) }}
{{ range('a') }}
{{ range() }}
{{ range(1.5) }}
{{ dict([('a', 1)], b=2) }} {{ dict({'a': 1}, a=2) }} {{ dict() }} {{ dict.fromkeys(['a', 'b'], 0) }} {{ {'a': 1}.items() }} {{ {'a': 1}.keys() }} {{ {'a': 1}.values() }} {{ {'a': 1}.copy() }} {{ {'a': 1}.get('b', [1]) }} {{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }} {{ (1, 2).index(2) }} {{ 'a' in {'a': 1}.keys() }} {{ ('a', 1) in {'a': 1}.items() }} {{ {'a': 1}.items() | list | first }} {{ {'a': 1} | list }} {{ {'a': 1} | length }}
{{ {'a': 1}.pop('a') }}
{{ {'a': 1}.update({'b': 2}) }}
{{ {'a': 1}.setdefault('b', 2) }}
{{ [1].extend([2]) }}
{{ [1].sort() }}
{{ [1].pop }}|{{ [1].pop is defined }}|{{ [1].copy() }}|{{ {}.__class__ }}|{{ ''.__len__ }}|{{ 'a'._x }}|{{ {'_x': 1}._x }}|{{ {'__class__': 1}.__class__ }}|{{ {'__class__': 1}['__class__'] }}
{{ ''.__class__() }}
{{ ''.__class__.__mro__ }}
{{ {}.get() }}
{{ [1].index(5) }}
{{ dict(1) }}
{{ 5() }}
{{ 'a'.upper('x') }}
{{ 'a'.nope() }}
{{ messages.append(1) }}
{{ (5).bit_length() }} {{ (2.0).is_integer() }} {{ (5).real }} {{ 5.5.real }} {{ true.real }}
{% set ns = namespace(a=1, b=[1]) %}{% set ns.c = 'x' %}{{ ns.a }}{{ ns.c }}{{ ns.d }}|{{ ns.d is defined }}{{ ns['a'] }}{{ ns }}{% set ns.a = ns.a + 1 %}{{ ns.a }}
{% set ns = namespace({'x': 1}, y=2) %}{{ ns.x + ns.y }}{% set ns.x, ns.y = ns.y, ns.x %}{{ ns.x }}{{ ns.y }}
{% set ns = namespace(_a=1) %}
{% set ns = namespace() %}{% set ns._a = 1 %}
{% set x = {} %}{% set x.a = 1 %}
{% set nope.a = 1 %}
{% set ns = namespace() %}{% set ns.x %}a{{ 1 }}b{% endset %}[{{ ns.x }}]
{% set a, b = [1, 2] %}{{ a }}{{ b }}{% set a, b = 'xy' %}{{ a }}{{ b }}{% set (c, d), e = (1, 2), 3 %}{{ c }}{{ d }}{{ e }}
{% set f, = [1] %}{{ f }}
{% set a, b = [1] %}
{% set a, b = [1, 2, 3] %}
{% set a, b = 5 %}
{% set 5 = 1 %}
{% set true = 1 %}
{% set x = 1, 2 %}{{ x }}
{% set x %}  a {% if true %}b{% endif %}
c{% endset %}[{{ x }}]{% set y | trim | upper %} q {% endset %}[{{ y }}]{% set z | replace('a', 'b') %}aaa{% endset %}{{ z }}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }};{% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x, in [(1,)] %}{{ x }}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in 'aé😀' %}{{ x }}.{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}
{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }};{% endfor %}
{% for x in [1, 2, 3, 4] if x is even %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.previtem }}{{ loop.nextitem }};{% else %}no{% endfor %}{% for x in [1] if x > 1 %}y{% else %}no{% endfor %}
{% for x in [1] %}{% continue %}{% else %}else{% endfor %}|{% for x in [1, 2] %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% else %}else{% endfor %}|{% for x in [1] %}{% break %}{% else %}else{% endfor %}
{% for x in [1, 2] %}{% for y in [1, 2, 3] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}
{% for x in [1, 2] recursive %}{{ x }}{% endfor %}{% for x in [[1, [2]], 3] recursive %}{{ loop.depth }}{% if x is iterable %}[{{ loop(x) }}]{% else %}{{ x }}{% endif %}{% endfor %}
{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}{{ n.v }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% else %}none{% endfor %}
{% for x in [1] %}{{ loop([2]) }}{% endfor %}
{% for x in [1, 2] %}{% set y = x %}{{ y }}{% endfor %}{{ y }}|{% set y = 0 %}{% for x in [1, 2] %}{{ y }}{% set y = x %}{% endfor %}{{ y }}
{% for x in [1, 2] %}{{ q }}{% set q = x %}{{ q }}{% endfor %}{{ x }}
{% for loop in [1] %}{% endfor %}
{% for x in [1] %}{% set loop = 1 %}{% endfor %}
{% for x in [3, 4] %}{% for y in loop.previtem, loop.nextitem %}{{ y }},{% endfor %}{% endfor %}
{{ loop }}|{{ loop is defined }}
{% if true %}{% set a = 1 %}{% endif %}{{ a }}{% if false %}{% set messages = 1 %}{% endif %}{{ messages | length }}{% if false %}{% set b = 1 %}{% else %}{% set c = 2 %}{% endif %}{{ b }}{{ c }}
{% macro m() %}{{ tools is defined }}{% endmacro %}{{ m() }}{% set tools = 1 %}{{ m() }}
{% macro m() %}{{ late }}{% endmacro %}{{ m() }}|{% set late = 5 %}{{ m() }}
{% set x = 1 %}{% macro m(x) %}{{ x }}{% set x = 5 %}{{ x }}{% endmacro %}{{ m(2) }}{{ x }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}
{% macro m(a=[]) %}{{ a }}{% endmacro %}{{ m() }}{{ m(none) }}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m(*[5, 6], **{'y': 7}) }}
{% macro m(a) %}{{ a is defined }}[{{ a }}]{% endmacro %}{{ m() }}
{% macro fact(n) %}{{ n * (fact(n - 1) | int) if n > 1 else 1 }}{% endmacro %}{{ fact(5) }}
{% macro outer() %}{% macro inner(x) %}<{{ x }}>{% endmacro %}{{ inner(1) }}{{ caller(2) }}{% endmacro %}{% call(y) outer() %}{{ y }}{% endcall %}
{% macro m() %}{{ caller is defined }}{{ caller }}{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro m(items) %}{% for i in items %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% call(a, b=9) m([5, 6]) %}{{ a }}-{{ b }} {% endcall %}
{% macro m() %}{% set z = 1 %}{{ z }}{% endmacro %}{{ m() }}{{ z }}|{{ m() | trim | length }}
{% macro m() %}
  a
{%- endmacro %}[{{ m() }}]{{ m }}
{% macro m(a, a2=1, b) %}{% endmacro %}
{% call 5 %}{% endcall %}
{% set f = 'abc'.upper %}{{ f() }}{% set g = messages[0].get %}{{ g('role') }}
{% filter upper %}a{{ 'b' }}{% for x in [1] %}c{% endfor %}{% endfilter %}{% filter replace('a', 'b') | trim %} aaa {% endfilter %}|
{% with %}{% set w = 1 %}{{ w }}{% endwith %}{{ w }}{% with a=1, b=a %}{{ a }}{{ b }}{% endwith %}{% set a = 5 %}{% with a=a+1 %}{{ a }}{% endwith %}{{ a }}{% with (x, y) = (1, 2) %}{{ x }}{{ y }}{% endwith %}
{% block b %}x{{ messages | length }}{% set q = 1 %}{% endblock %}{{ q }}{% set top = 3 %}{% block c %}{{ top }}{% endblock %}
{% generation %}{% set gg = 1 %}{{ gg }}{% endgeneration %}{{ gg }}{% for x in [1, 2] %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}
{% print 1, 'a' %}{% print [1] %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.reset() }}{{ c.current }}{% set j = joiner('; ') %}{{ j() }}x{{ j() }}y{{ j() }}
{{ cycler() }}
{{ strftime_now('%Y') }} {{ strftime_now('%d %B %Y, %H:%M:%S %p %j %U %w %y %e|%%|%f|%z|%Z') }} {{ strftime_now('') }}|{{ strftime_now('é %A') }}
{{ strftime_now() }}
{{ strftime_now(5) }}
{{ raise_exception('a ' ~ 1) }}
{{ raise_exception(missing) }}
{{ raise_exception() }}
{{ raise_exception('x' * 300) }}
a{#- x -#} b {#+ y +#}
c{% if true +%}
d{%+ if true %}
e{%- endif -%}
{%- endif %}
  {% raw %}  {{ x }} {% y %} {# z #}{% endraw %}|{%- raw -%}  q  {%- endraw -%}  r
  {%+ set a = 1 %} {{ a }}
x {{- ' y ' -}} z {{+ 1 }} w
    {% if true %}
    b
    {% endif %}
    {{ 'c' }}
  {# comment #}
	{%- for i in [1, 2] %}
	- {{ i }}
	{%- endfor %}
{% if true %}

{% endif %}x
a  {%- if true %}  b  {% endif -%}  c
{{ '}}' }} {{ '%}' }} {{ "{{" }} {{ {'a': {'b': 1}}.a }} {{ {'a': {}} }}
{{ 'unclosed }}
{{ 1
{% if true %}a
{% if true %}{% for x in [] %}{% endif %}
{% endif %}
{% nope %}
{% else %}
{# unclosed
{% raw %}x
{{ a b }}
{{ a. }}
{{ .a }}
{{ a[ }}
{{ (1, 2 }}
{{ [1, 2) }}
{{ {'a' 1} }}
{{ 1 + }}
{{ | upper }}
{{ a | }}
{{ a is }}
{{ }}
{% %}
{% for %}
{% for x %}{% endfor %}
{% set %}
{% set x = %}
{% macro %}{% endmacro %}
{{ f(a=1, 2) }}
{{ f(**a, b) }}
{{ $ }}
{{ a ? b }}
{{ 'a' & 'b' }}
{{ lambda x: x }}
{% break %}
{% if x = 1 %}{% endif %}
{{ 5 | upper }} {{ none | upper }} {{ [1] | lower }} {{ 3.0 | string | length }}
{{ 12345 | length }}
{{ true | lower }} {{ 5 | title }} {{ 5 | capitalize }} {{ 5 | trim }} {{ 5 | center(5) }}|{{ [1, 2] | string }} {{ {'a': 1} | string | length }}
{{ 'a' | default('b') }} {{ none | default('b', true) }} {{ missing | d('b') }} {{ missing | default(boolean=true) }}| {{ 0 | default(5, true) }} {{ messages[0].x | default('y') }} {{ false | default('z') }}
{{ messages[0] | attr('role') }}|{{ 'a' | attr('upper') is callable }}|{{ {'x': 1} | attr('x') is defined }}|{{ 'a' | attr('nope') }}|{{ 'a' | attr('__class__') }}
{{ messages[0] | items | list }} {{ {} | items | list }} {{ missing | items | list }} {{ tools[0].function.parameters.properties | items | map('first') | list }}
{{ [1] | items | list }}
{{ {'b': [1, 2, {'x': 'y' * 40, 'a': 'z' * 50}], 'a': 'w ' * 60} | pprint }} {{ [1, 'a'] | pprint }} {{ ('x y ' * 50) | pprint }} {{ range(40) | list | pprint }} {{ ('a' * 90,) | pprint }} {{ {'k': {'n': [range(10) | list, 'q' * 70]}} | pprint }}
{{ ('long words here ' * 8) | pprint }}
{{ [1, 2] == [1, 2] }} {{ [] is none }} {{ messages[1] == messages[1] }} {{ messages[1] == messages[3] }} {{ messages[0] != messages[1] }} {{ messages[1] in messages }} {{ {'role': 'user', 'content': 'a'} in messages }}
{{ messages[1:] | length }} {{ messages[:-1] | map(attribute='content') | list }} {{ messages[::-1][0].content }} {{ (messages | selectattr('role', 'eq', 'user') | list)[-1].content }} {{ messages | map(attribute='role') | unique | list }} {{ messages | map('length') | sum }} {{ messages | batch(2) | map('first') | map(attribute='role') | list }}
{{ tools | map(attribute='function.name') | join(', ') }} {{ tools[0] | tojson(indent=4) }} {{ tools[1].function.parameters.properties.k.type }} {{ tools[0]['function'].parameters.required[0] }} {{ tools | selectattr('function.parameters.required') | list | length }} {{ tools[0].function.parameters.properties.keys() | list }} {{ tools[0].function.parameters.properties['items'] is defined }}
{{ 'x'.encode() }} {{ 'é'.encode('utf-8').decode('utf-8') }} {{ 'é'.encode() | length }} {{ ''.encode() }} {{ "a'\"\n\x00".encode() }}
{{ "a" ~ ("b" if true else "c") ~ "d" }} {{ ["a", "b"][1 if true else 0] }}
{{ [x for x in [1]] }}
{{ [1, 2, 3] | sum / 2 }}
{{ -[1, 2] | first }}
{{ 1 }} {{ 2 * 3 | string ~ 4 }} {{ 'a' ~ 'b' | upper }} {{ ('a' ~ 'b') | upper }}
{{ 1 + 1 | string }}
{{ 2 * 3 | string }} {{ -1 | abs }} {{ not true | string }} {{ 1 < 2 | int }} {{ 'a' in 'b' | replace('b', 'a') }} {{ 'a' | upper in 'A' }} {{ -1 ** 2 }} {{ (-1) ** 2 }}
{{ 2 ** 3 | string }}
""".strip("\n").split("\n")


def _join_open_lines(lines):
    """Some cases span lines: a line goes on while the next one belongs to the same template (marked below)."""
    joined, out = {"{{ 'a 'b' \"c\" }}"}, []
    starts = ("b' }} {{", "c{% endset", "  a", "{%- endmacro", "c{% if true +%}", "d{%+", "e{%-", "{%- endif %}", "    b", "    {% endif %}", "    {{ 'c' }}", "\t- ", "\t{%- endfor", "{% endif %}x")
    for line in lines:
        empty_inside = line == "" and out and out[-1] == "{% if true %}"
        if out and (line.startswith(starts) or empty_inside): out[-1] += "\n" + line
        else: out.append(line)
    return out


ODD = _join_open_lines(ODD)

# Errors that we word in our own way.
OWN_WORDS = [r"{{ '\N{BULLET' }}", "{{ 'a'.replace('a') }}", "{{ {}.get() }}", "{{ 'a'.upper('x') }}", "{{ strftime_now() }}", "{{ raise_exception() }}", "{{ raise_exception(missing) }}", "{% break %}"]
