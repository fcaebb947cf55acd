#include "levers/parse.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace isotope::levers {

namespace {

std::string_view trim(std::string_view s) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!s.empty() && blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && blank(s.back())) s.remove_suffix(1);
  return s;
}

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return out;
}

std::string text_of(bool b) { return b ? "true" : "false"; }

std::string shown(const Row& row, std::string_view text) {
  if (row.secret) return "(hidden)";
  return fmt::format("'{}'", text.size() > 80 ? fmt::format("{}…", text.substr(0, 80)) : std::string(text));
}

tl::unexpected<Error> bad(const Row& row, std::string_view text, std::string_view where) {
  return fail(Code::invalid_argument, fmt::format("{} = {} is not accepted", row.name, shown(row, text)), std::string(where),
              fmt::format("use {}", domain(row)));
}

/// The default stands with a warning, or the start stops, as the row says.
Result<Parsed> refuse(const Row& row, std::string_view text, std::string_view where) {
  if (row.invalid == OnInvalid::stop) return bad(row, text, where);
  return Parsed{std::string(row.fallback),
                fmt::format("{} = {} ({}) is not accepted; the default '{}' is used. Use {}", row.name, shown(row, text), where, row.fallback, domain(row))};
}

Result<Parsed> parse_presence(const Row& row, std::string_view text, std::string_view where) {
  const bool field = row.rule == Rule::presence;
  Parsed p{text_of(field), {}};
  const auto b = parse_boolean(text);
  if (text.empty() || (b && !*b))
    p.warning = fmt::format("{} = '{}' ({}): set but presence-gated; unset it to disable", row.name, text, where);
  return p;
}

std::string number_text(const Row& row, double v) {
  return row.type == Type::integer ? fmt::format("{}", int64_t(v)) : fmt::format("{}", v);
}

Result<Parsed> parse_number(const Row& row, std::string_view text, std::string_view where) {
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  double v = 0;
  const char* end = digits.data() + digits.size();
  if (row.type == Type::integer) {
    int64_t i = 0;
    const auto r = std::from_chars(digits.data(), end, i);
    if (digits.empty() || r.ec != std::errc{} || r.ptr != end || std::abs(double(i)) > 9.0e15) return refuse(row, text, where);
    v = double(i);
  } else {
    const auto r = std::from_chars(digits.data(), end, v);
    if (digits.empty() || r.ec != std::errc{} || r.ptr != end || !std::isfinite(v) || std::abs(v) > 9.0e15) return refuse(row, text, where);
  }
  if (!row.values.empty()) {
    const std::string canon = number_text(row, v);
    for (size_t at = 0; at <= row.values.size();) {
      const size_t stop = std::min(row.values.find('|', at), row.values.size());
      if (row.values.substr(at, stop - at) == canon) return Parsed{canon, {}};
      at = stop + 1;
    }
    return refuse(row, text, where);
  }
  const bool low = v < row.min || (row.min_open && v == row.min);
  if (!low && v <= row.max) return Parsed{number_text(row, v), {}};
  if (row.invalid != OnInvalid::clamp) return refuse(row, text, where);
  const std::string clamped = number_text(row, low ? row.min : row.max);
  return Parsed{clamped, fmt::format("{} = '{}' ({}) is outside {}; {} is used", row.name, text, where, domain(row), clamped)};
}

Result<Parsed> parse_enumeration(const Row& row, std::string_view text, std::string_view where) {
  const std::string wanted = lower(text);
  for (size_t at = 0; at <= row.values.size();) {
    const size_t stop = std::min(row.values.find('|', at), row.values.size());
    const std::string_view choice = row.values.substr(at, stop - at);
    if (lower(choice) == wanted) return Parsed{std::string(choice), {}};
    at = stop + 1;
  }
  if (row.rule == Rule::armed_enum) {
    if (const auto b = parse_boolean(text))
      return Parsed{std::string(*b ? row.values.substr(row.values.find('|') + 1) : row.values.substr(0, row.values.find('|'))), {}};
  }
  return refuse(row, text, where);
}

Result<Parsed> parse_list(const Row& row, std::string_view text, std::string_view where) {
  std::string out;
  int items = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t stop = std::min(text.find(',', at), text.size());
    const std::string_view item = trim(text.substr(at, stop - at));
    at = stop + 1;
    if (item.empty()) return refuse(row, text, where);
    if (row.values.starts_with("int")) {
      int64_t i = 0;
      const auto r = std::from_chars(item.data(), item.data() + item.size(), i);
      if (r.ec != std::errc{} || r.ptr != item.data() + item.size() || i < 0) return refuse(row, text, where);
      if (row.values == "int:3" && items == 0 && i < 1) return refuse(row, text, where);
    }
    ++items;
    if (!out.empty()) out += ',';
    out += item;
  }
  if (row.values == "int:3" && items != 3) return refuse(row, text, where);
  return Parsed{out, {}};
}

Result<Parsed> parse_boolean_row(const Row& row, std::string_view text, std::string_view where, bool inverted) {
  const auto b = parse_boolean(text);
  if (!b && row.rule == Rule::lenient)
    return Parsed{"false", fmt::format("{} = '{}' ({}) reads as off; use 1 or true to switch it on", row.name, text, where)};
  if (!b) return refuse(row, text, where);
  if (row.rule == Rule::lenient) {
    const std::string l = lower(text);
    if (*b && l != "1" && l != "true")
      return Parsed{"false", fmt::format("{} = '{}' ({}) reads as off; use 1 or true to switch it on", row.name, text, where)};
  }
  const bool flip = inverted != (row.rule == Rule::negative);
  return Parsed{text_of(*b != flip), {}};
}

}  // namespace

std::optional<bool> parse_boolean(std::string_view text) {
  const std::string t = lower(trim(text));
  for (const char* on : {"1", "true", "yes", "on"})
    if (t == on) return true;
  for (const char* off : {"0", "false", "no", "off"})
    if (t == off) return false;
  return std::nullopt;
}

Result<Parsed> parse_value(const Row& row, std::string_view raw, std::string_view where, bool inverted) {
  if (row.rule == Rule::presence || row.rule == Rule::presence_off) return parse_presence(row, trim(raw), where);
  const std::string_view text = trim(raw);
  if (text.empty()) return Parsed{std::string(row.fallback), {}};
  switch (row.type) {
    case Type::boolean:
    case Type::tristate: return parse_boolean_row(row, text, where, inverted);
    case Type::integer:
    case Type::real: return parse_number(row, text, where);
    case Type::enumeration: return parse_enumeration(row, text, where);
    case Type::list: return parse_list(row, text, where);
    case Type::json: {
      const auto j = nlohmann::json::parse(text, nullptr, false);
      if (!j.is_object()) return refuse(row, text, where);
      return Parsed{std::string(text), {}};
    }
    case Type::text:
    case Type::path: break;
  }
  if (text.find('\0') != std::string_view::npos) return refuse(row, text, where);
  return Parsed{std::string(text), {}};
}

}  // namespace isotope::levers
