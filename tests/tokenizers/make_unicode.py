#!/usr/bin/env python3
"""Writes src/text/unicode_data.inc: what the published tokenizers library takes each code point for.

    python make_unicode.py ../../src/text/unicode_data.inc

The library mixes Unicode versions (Oniguruma 16, the Rust standard library 17, older crates for punctuation and normal forms), so its behaviour is
measured, not looked up. Needs the Python packages `tokenizers` (0.23) and the system's libpcre2-8 and libutf8proc, whose differences are recorded.
"""

import ctypes
import sys

from tokenizers import Regex, normalizers as N, pre_tokenizers as P

CPS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(map(chr, CPS))
GC = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn Cs".split()
GROUPS = {"L": GC[0:5], "M": GC[5:8], "N": GC[8:11], "P": GC[11:18], "S": GC[18:22], "Z": GC[22:25]}
SCRIPTS = """Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese
Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret
Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi
Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese
Kaithi Kannada Katakana Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian
Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao
Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic
Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau
Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo
Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto
Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square""".split()
PROPS = "Alphabetic Uppercase Lowercase White_Space Emoji Emoji_Presentation Emoji_Modifier Extended_Pictographic Ideographic Math Dash Hex_Digit".split()


def onig(rx):
    pt = P.Split(Regex("(?:" + rx + ")+"), "removed", invert=True)  # pieces are what matches
    return {ord(c) for piece, _ in pt.pre_tokenize_str(TEXT) for c in piece}


class Pcre:
    def __init__(self):
        self.lib = lib = ctypes.CDLL("libpcre2-8.so.0")
        lib.pcre2_compile_8.restype = lib.pcre2_match_data_create_from_pattern_8.restype = ctypes.c_void_p
        lib.pcre2_get_ovector_pointer_8.restype = ctypes.POINTER(ctypes.c_size_t)
        lib.pcre2_get_ovector_pointer_8.argtypes = [ctypes.c_void_p]
        lib.pcre2_match_data_create_from_pattern_8.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        lib.pcre2_compile_8.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_uint32,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]
        lib.pcre2_match_8.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_size_t,
            ctypes.c_uint32,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]
        self.text = TEXT.encode()

    def match(self, rx):
        e, o, p = ctypes.c_int(), ctypes.c_size_t(), (rx + "++").encode()
        re = self.lib.pcre2_compile_8(p, len(p), 0x000A0000, ctypes.byref(e), ctypes.byref(o), None)  # UTF | UCP
        md = self.lib.pcre2_match_data_create_from_pattern_8(re, None)
        ov, pos, out = self.lib.pcre2_get_ovector_pointer_8(md), 0, set()
        while pos < len(self.text) and self.lib.pcre2_match_8(re, self.text, len(self.text), pos, 0x40000000, md, None) > 0:
            out.update(map(ord, self.text[ov[0] : ov[1]].decode()))
            pos = ov[1]
        return out


def ranges(cps):
    out = []
    for c in sorted(cps):
        if out and (c == out[-1][1] + 1 or (out[-1][1], c) == (0xD7FF, 0xE000)):
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def measure():
    """The sets in which the Rust side of the library differs from general categories."""
    ws = set(CPS) - {ord(c) for t, _ in P.WhitespaceSplit().pre_tokenize_str("".join("a" + chr(c) for c in CPS)) for c in t}
    num = {
        ord(t)
        for t, _ in P.Digits(individual_digits=True).pre_tokenize_str("".join("一" + chr(c) for c in CPS))
        if len(t) == 1 and t != "一"
    }
    punct = {
        ord(t)
        for t, _ in P.Punctuation("isolated").pre_tokenize_str("".join("aa" + chr(c) for c in CPS))
        if len(t) == 1 and t != "a"
    }
    word = {ord(t[1]) for t, _ in P.Whitespace().pre_tokenize_str("".join("a" + chr(c) + "\n" for c in CPS)) if len(t) == 2}
    bert = lambda **k: N.BertNormalizer(
        **{**dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False), **k}
    )
    accents, clean, cjk, mn = N.StripAccents(), bert(clean_text=True), bert(handle_chinese_chars=True), bert(strip_accents=True)
    cleaned = {c: clean.normalize_str(chr(c)) for c in CPS}
    return {
        "White": ws,
        "Numeric": num,
        "Punct": punct,
        "Word": word,
        "Accent": {c for c in CPS if accents.normalize_str(chr(c)) == ""},
        "Nonspacing": {c for c in CPS if mn.normalize_str(chr(c)) == ""},
        "Control": {c for c in CPS if cleaned[c] == ""},
        "Cjk": {c for c in CPS if cjk.normalize_str(chr(c)) != chr(c)},
    }


def script_classes():
    """First code point << 8 | class: what UnicodeScripts keeps together. Class 0 joins anything; kana and Han are one class."""
    pt = P.UnicodeScripts()
    joins = lambda a, b: len(pt.pre_tokenize_str(chr(a) + chr(b))) == 1
    script = {c: i + 1 for i, s in enumerate(SCRIPTS) for c in onig(r"\p{%s}" % s)}
    classes, first = {}, {}
    for c in CPS:
        if joins(ord("a"), c) and joins(ord("Ж"), c):
            continue
        known = first.get(script[c])
        classes[c] = script[c] if known is None or joins(known, c) else next(i for i, r in first.items() if joins(r, c))
        first.setdefault(classes[c], c)
    same = {}
    for i, c in first.items():
        same[i] = next((j for j, d in first.items() if j < i and joins(d, c)), i)
    cls = lambda c: same.get(classes.get(c), 0)
    return [c << 8 | cls(c) for c in range(0x110000) if c == 0 or cls(c) != cls(c - 1)]


def normal_forms():
    """Code points that this library's normal forms leave alone although utf8proc knows a mapping or a combining class, and lowercase extras."""
    lib = ctypes.CDLL("libutf8proc.so.2")
    lib.utf8proc_map.argtypes = [ctypes.c_char_p, ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int]
    lib.utf8proc_map.restype = ctypes.c_ssize_t
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]

    class Property(ctypes.Structure):
        _fields_ = [("category", ctypes.c_int16), ("ccc", ctypes.c_int16)]

    lib.utf8proc_get_property.restype = ctypes.POINTER(Property)

    def utf8proc(s, options):
        out = ctypes.c_void_p()
        n = lib.utf8proc_map(s.encode(), len(s.encode()), ctypes.byref(out), options)
        text = ctypes.string_at(out, n).decode()
        libc.free(out)
        return text

    nfd, nfkd, lower = N.NFD(), N.NFKD(), N.Lowercase()
    inert = {
        c
        for c in CPS
        if utf8proc(chr(c), 2 | 16 | 4) != nfkd.normalize_str(chr(c)) or utf8proc(chr(c), 2 | 16) != nfd.normalize_str(chr(c))
    }
    for c in CPS:  # a mark of class 1..239 is sorted before U+0345 (class 240)
        if c != 0x345 and lib.utf8proc_get_property(c).contents.ccc and nfd.normalize_str(chr(c)) == chr(c):
            if nfd.normalize_str("aͅ" + chr(c)) == "aͅ" + chr(c):
                inert.add(c)
    inert |= {0x11930, 0x11935}  # compose to U+11938, which the library does not know
    extra = {
        c: lower.normalize_str(chr(c)) for c in CPS if c != 0x130 and chr(lib.utf8proc_tolower(c)) != lower.normalize_str(chr(c))
    }
    return inert, {c: ord(v) for c, v in extra.items()}


def emit(out, name, rows, per_line=8):
    out.append(f"constexpr {name}[] = {{")
    rows = list(rows)
    for i in range(0, len(rows), per_line):
        out.append("    " + " ".join(rows[i : i + per_line]))
    out.append("};")


def main():
    cat = {c: g for g in GC[:-1] for c in onig(r"\p{%s}" % g)}
    cat.update({c: "Cs" for c in range(0xD800, 0xE000)})
    out = [
        "// Generated by tests/tokenizers/make_unicode.py. Do not edit.",
        "// General categories as Oniguruma 6.9.10 (Unicode 16) has them: first code point << 8 | category.",
    ]
    starts = [c for c in range(0x110000) if c == 0 or cat[c] != cat[c - 1]]
    emit(out, "uint32_t kCategoryStarts", (f"0x{c << 8 | GC.index(cat[c]):X}," for c in starts), 12)
    for name, s in measure().items():
        inside = {c for c in s}
        mask = 0
        for i, g in enumerate(GC):
            members = [c for c in CPS if cat[c] == g]
            if members and sum(c in inside for c in members) * 2 > len(members):
                mask |= 1 << i
        toggled = ranges(c for c in CPS if (c in inside) != bool(mask >> GC.index(cat[c]) & 1))
        out.append(f"constexpr uint32_t k{name}Mask = 0x{mask:X};  // categories; the ranges below are the other way round")
        emit(out, f"Range k{name}Toggled", (f"{{0x{a:X}, 0x{b:X}}}," for a, b in toggled or [(0x110000, 0x110000)]))
    pcre = Pcre()
    rows, flat = [], []
    names = [(g, r"\p{%s}" % g, r"\p{%s}" % g) for g in GC if g not in ("Cn", "Cs")] + [
        (g, r"\p{%s}" % g, r"\p{%s}" % g) for g in GROUPS
    ]
    names += [(s, r"\p{%s}" % s, r"\p{sc:%s}" % s) for s in SCRIPTS] + [(p, r"\p{%s}" % p, r"\p{%s}" % p) for p in PROPS]
    for name, a, b in names:
        more = ranges(onig(a) - pcre.match(b))
        if more:
            rows.append(f'{{"{name}", {len(flat)}, {len(more)}}},')
        flat += more
    out.append("// Characters that Oniguruma counts to a property and PCRE2 10.42 (Unicode 14) does not yet.")
    emit(out, "Range kNewerRanges", (f"{{0x{a:X}, 0x{b:X}}}," for a, b in flat))
    emit(out, "NewerRow kNewer", rows)
    emit(out, "Range kHanRanges", (f"{{0x{a:X}, 0x{b:X}}}," for a, b in ranges(onig(r"\p{Han}"))))
    out.append("// Script names that \\p{} accepts.")
    emit(out, "std::string_view kScripts", (f'"{s}",' for s in SCRIPTS))
    emit(out, "std::string_view kBinaryProperties", (f'"{s}",' for s in PROPS))
    emit(out, "uint32_t kScriptClassStarts", (f"0x{v:X}," for v in script_classes()), 12)
    inert, lower = normal_forms()
    out.append("// Left alone by the normal forms: newer than the library's tables.")
    emit(out, "Range kInert", (f"{{0x{a:X}, 0x{b:X}}}," for a, b in ranges(inert)))
    emit(out, "Range kLowerExtra", (f"{{0x{c:X}, 0x{v:X}}}," for c, v in sorted(lower.items())))
    open(sys.argv[1], "w").write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
