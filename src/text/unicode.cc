#include "text/unicode.h"

#include <simdjson.h>
#include <utf8proc.h>

#include <algorithm>
#include <map>

namespace isotope::text {
namespace {

using Range = CharRange;
struct NewerRow {
  std::string_view name;
  uint32_t first, count;
};
#include "text/unicode_data.inc"

struct Flag {
  uint64_t flag;
  uint32_t categories;             ///< whose characters have it
  std::span<const Range> toggled;  ///< except these, and these of others
};
constexpr Flag kFlags[] = {{props::kWhite, kWhiteMask, kWhiteToggled},
                           {props::kNumeric, kNumericMask, kNumericToggled},
                           {props::kPunct, kPunctMask, kPunctToggled},
                           {props::kWord, kWordMask, kWordToggled},
                           {props::kAccent, kAccentMask, kAccentToggled},
                           {props::kNonspacing, kNonspacingMask, kNonspacingToggled},
                           {props::kControl, kControlMask, kControlToggled},
                           {props::kCjk, kCjkMask, kCjkToggled},
                           {props::kInert, 0, kInert},
                           {props::kHan, 0, kHanRanges}};

// A program starts with this, so the million entries are written once.
std::vector<uint64_t> flat_properties() {
  std::vector<uint64_t> flat(0x110000);
  const size_t n = std::size(kCategoryStarts);
  for (size_t i = 0; i < n; i++) {
    const uint32_t first = kCategoryStarts[i] >> 8, end = i + 1 < n ? kCategoryStarts[i + 1] >> 8 : 0x110000;
    uint64_t word = uint64_t{1} << (kCategoryStarts[i] & 255);
    for (const Flag& f : kFlags)
      if (word & f.categories) word |= f.flag;
    std::fill(flat.begin() + first, flat.begin() + end, word);
  }
  for (const Flag& f : kFlags)
    for (const Range& r : f.toggled)
      for (char32_t c = r.first; c <= r.last && c < 0x110000; c++) flat[c] ^= f.flag;
  flat['\r'] |= props::kNewline;
  flat['\n'] |= props::kNewline;
  return flat;
}

/// True where bytes past the first rule out (over-long forms, surrogates, beyond U+10FFFF).
bool second_byte_fits(uint8_t lead, uint8_t b) {
  switch (lead) {
    case 0xE0: return b >= 0xA0 && b <= 0xBF;
    case 0xED: return b >= 0x80 && b <= 0x9F;
    case 0xF0: return b >= 0x90 && b <= 0xBF;
    case 0xF4: return b >= 0x80 && b <= 0x8F;
    default: return (b & 0xC0) == 0x80;
  }
}

bool surrogate_bytes(std::string_view s) {
  return s.size() >= 3 && s[0] == '\xED' && uint8_t(s[1]) >= 0xA0 && uint8_t(s[1]) <= 0xBF && (uint8_t(s[2]) & 0xC0) == 0x80;
}

std::string replace_invalid(std::string_view s, bool join_surrogates) {
  std::string out;
  out.reserve(s.size() + 8);
  while (!s.empty()) {
    const Utf8Part part = utf8_part(s);
    size_t n = part.length;
    if (part.kind == Utf8Part::whole) {
      out += s.substr(0, n);
    } else {
      if (join_surrogates && surrogate_bytes(s)) n = 3;
      out += kReplacement;
    }
    s.remove_prefix(n);
  }
  return out;
}

bool all_ascii(std::string_view s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return uint8_t(c) < 0x80; });
}

/// Canonical decomposition or compatibility decomposition of a run without inert characters, in canonical order, then composed if asked.
void normalize_run(std::vector<utf8proc_int32_t>& run, NormalForm form, std::string& out) {
  if (run.empty()) return;
  const bool compat = form == NormalForm::nfkd || form == NormalForm::nfkc, compose = form == NormalForm::nfc || form == NormalForm::nfkc;
  const auto options = utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> parts;
  parts.reserve(run.size() * 2 + 32);
  for (const utf8proc_int32_t c : run) {
    utf8proc_int32_t buffer[32];
    int boundary = 0;
    const auto n = utf8proc_decompose_char(c, buffer, 32, options, &boundary);
    if (n > 0 && n <= 32) parts.insert(parts.end(), buffer, buffer + n);
  }
  run.clear();
  const auto ccc = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (size_t i = 0; i < parts.size();) {  // canonical ordering: stable sort of each run of non-starters
    if (ccc(parts[i]) == 0) { i++; continue; }
    size_t j = i;
    while (j < parts.size() && ccc(parts[j]) != 0) j++;
    std::stable_sort(parts.begin() + i, parts.begin() + j, [&](auto a, auto b) { return ccc(a) < ccc(b); });
    i = j;
  }
  auto n = utf8proc_ssize_t(parts.size());
  if (compose) n = utf8proc_normalize_utf32(parts.data(), n, utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  for (utf8proc_ssize_t i = 0; i < n; i++) append_char(out, char32_t(parts[size_t(i)]));
}

}  // namespace

CharTable::CharTable() {
  const std::vector<uint64_t> flat = flat_properties();
  std::map<std::vector<uint64_t>, uint16_t> seen;
  for (size_t block = 0; block < index_.size(); block++) {
    const auto first = flat.begin() + std::ptrdiff_t(block * 256), end = first + 256;
    if (block > 0 && std::equal(first, end, first - 256)) {  // most of the planes
      index_[block] = index_[block - 1];
      continue;
    }
    const auto [it, fresh] = seen.emplace(std::vector<uint64_t>(first, end), uint16_t(seen.size()));
    if (fresh) words_.insert(words_.end(), first, end);
    index_[block] = it->second;
  }
}

const CharTable& CharTable::get() {
  static const CharTable table;
  return table;
}

size_t count_chars(std::string_view text) {
  size_t n = 0;
  for (const char c : text) n += (uint8_t(c) & 0xC0) != 0x80;
  return n;
}

void append_char(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += {char(0xC0 | c >> 6), char(0x80 | (c & 63))};
  } else if (c < 0x10000) {
    out += {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 63)), char(0x80 | (c & 63))};
  } else {
    out += {char(0xF0 | c >> 18), char(0x80 | (c >> 12 & 63)), char(0x80 | (c >> 6 & 63)), char(0x80 | (c & 63))};
  }
}

Utf8Part utf8_part(std::string_view s) {
  const auto lead = uint8_t(s[0]);
  if (lead < 0x80) return {Utf8Part::whole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Part::invalid, 1};
  const size_t need = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < need; i++) {
    if (i == s.size()) return {Utf8Part::incomplete, i};
    const auto b = uint8_t(s[i]);
    if (i == 1 ? !second_byte_fits(lead, b) : (b & 0xC0) != 0x80) return {Utf8Part::invalid, i};
  }
  return {Utf8Part::whole, need};
}

bool valid_utf8(std::string_view s) { return simdjson::validate_utf8(s.data(), s.size()); }
std::string repair_utf8(std::string_view s) { return replace_invalid(s, true); }
std::string lossy_utf8(std::string_view s) { return valid_utf8(s) ? std::string(s) : replace_invalid(s, false); }

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += c >= 'A' && c <= 'Z' ? char(c + 32) : char(c);
  } else if (c == 0x130) {
    out += "i\xCC\x87";
  } else {
    const auto* end = std::end(kLowerExtra);
    const auto* it = std::lower_bound(std::begin(kLowerExtra), end, c, [](const Range& r, char32_t v) { return r.first < v; });
    append_char(out, it != end && it->first == c ? it->last : char32_t(utf8proc_tolower(utf8proc_int32_t(c))));
  }
}

std::string normalize(std::string_view text, NormalForm form) {
  if (all_ascii(text)) return std::string(text);
  const CharTable& table = CharTable::get();
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  std::vector<utf8proc_int32_t> run;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const char32_t c = next_char(p);
    // No mapping, no class: a border for ordering and composition. U+11A7 stands before the trailing consonants, but utf8proc composes it as if it were one.
    if ((table[c] & props::kInert) || c == 0x11A7) {
      normalize_run(run, form, out);
      append_char(out, c);
    } else {
      run.push_back(utf8proc_int32_t(c));
    }
  }
  normalize_run(run, form, out);
  return out;
}

std::vector<size_t> grapheme_ends(std::string_view text) {
  std::vector<size_t> ends;
  utf8proc_int32_t state = 0, previous = -1;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const auto at = size_t(p - text.data());
    const auto c = utf8proc_int32_t(next_char(p));
    if (previous >= 0 && utf8proc_grapheme_break_stateful(previous, c, &state)) ends.push_back(at);
    previous = c;
  }
  if (!text.empty()) ends.push_back(text.size());
  return ends;
}

uint8_t script_class(char32_t c) {
  const auto* it = std::upper_bound(std::begin(kScriptClassStarts), std::end(kScriptClassStarts), uint32_t(c) << 8 | 0xFF);
  return uint8_t(it[-1] & 0xFF);
}

std::span<const CharRange> newer_members(std::string_view property) {
  for (const NewerRow& row : kNewer)
    if (row.name == property) return std::span(kNewerRanges).subspan(row.first, row.count);
  return {};
}
std::span<const std::string_view> script_names() { return kScripts; }
std::span<const std::string_view> binary_property_names() { return kBinaryProperties; }

}  // namespace isotope::text
