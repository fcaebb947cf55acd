// The two formatting languages of Python: "%05.2f" % x and "{:>8}".format(x).
#include <algorithm>
#include <cmath>

#include "text/jinja_number.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_unicode.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

std::string magnitude(const Value& v, unsigned base, bool upper) {
  if (v.is(Kind::big)) {
    if (base != 10) raise(Fault::overflow, "integers beyond 64 bits can be written in decimal only");
    const std::string& d = v.as<BigInt>().digits;
    return d[0] == '-' ? d.substr(1) : d;
  }
  const int64_t i = v.as_int();
  return int_digits(i < 0 ? ~static_cast<uint64_t>(i) + 1 : static_cast<uint64_t>(i), base, upper);
}

bool is_negative(const Value& v) {
  return v.is(Kind::big) ? v.as<BigInt>().digits[0] == '-' : v.is(Kind::real) ? std::signbit(v.as_real()) : v.as_int() < 0;
}

double number_real(const Value& v) {
  double d = v.as_real();
  if (v.is(Kind::big)) parse_real(v.as<BigInt>().digits, d);
  return d;
}

// A formatted number before it is padded: sign, prefix (0x), digits.
struct Number { std::string sign, prefix, digits; };

void write_padding(Writer& w, uint64_t n, std::string_view fill) {
  if (n == 0) return;
  w.budget().check_string(n > w.budget().max_string ? SIZE_MAX / 2 : w.size() + n * fill.size());
  std::string out;
  for (uint64_t i = 0; i < n; ++i) out += fill;
  w.add(out);
}

// ---------------------------------------------------------------- %

struct PercentSpec {
  bool left = false, plus = false, blank = false, alternate = false, zero = false;
  int64_t width = 0, precision = -1;
  char type = 0;
};

class Percent {
 public:
  Percent(Vm& vm, const Str& format, const Value& args) : vm_(vm), f_(format), args_(args), w_(vm.b) {
    mapping_ = !args.is(Kind::tuple) && !args.is(Kind::string) &&
               (args.is(Kind::dict) || args.is(Kind::list) || args.is(Kind::undefined) || args.is(Kind::range));
  }

  Value run() {
    const std::string& s = f_.text;
    size_t i = 0;
    while (i < s.size()) {
      const size_t hit = std::min(s.find('%', i), s.size());
      w_.add(f_, i, hit);
      i = hit;
      if (i < s.size()) one(++i);
    }
    if (!mapping_ && used_ < (args_.is(Kind::tuple) ? args_.as<Seq>().items.size() : 1))
      raise(Fault::type, "not all arguments converted during string formatting");
    return w_.take(f_.markup);
  }

 private:
  const Value& next() {
    if (args_.is(Kind::tuple)) {
      const auto& items = args_.as<Seq>().items;
      if (used_ < items.size()) return items[used_++];
    } else if (used_ == 0) {
      ++used_;
      return args_;
    }
    raise(Fault::type, "not enough arguments for format string");
  }

  int64_t number(size_t& i) {
    const std::string& s = f_.text;
    if (i < s.size() && s[i] == '*') {
      ++i;
      const Value& v = next();
      if (!v.is_int()) raise(Fault::type, "* wants int");
      return v.as_int();
    }
    int64_t n = 0;
    for (; i < s.size() && s[i] >= '0' && s[i] <= '9'; ++i) {
      n = n * 10 + (s[i] - '0');
      if (n > INT32_MAX) raise(Fault::value, "width too big");
    }
    return n;
  }

  void one(size_t& i) {
    const std::string& s = f_.text;
    PercentSpec spec;
    const Value* given_by_name = nullptr;
    if (i < s.size() && s[i] == '(') {
      if (!args_.is(Kind::dict)) raise(Fault::type, "format requires a mapping");
      const size_t start = ++i;
      for (int depth = 1; i < s.size(); ++i) {
        if (s[i] == '(') ++depth;
        if (s[i] == ')' && --depth == 0) break;
      }
      if (i >= s.size()) raise(Fault::value, "incomplete format key");
      const std::string key = s.substr(start, i++ - start);
      given_by_name = args_.as<Dict>().find(key);
      if (!given_by_name) raise(Fault::index, "'" + key + "'");
    }
    for (; i < s.size(); ++i) {
      if (s[i] == '-') spec.left = true;
      else if (s[i] == '+') spec.plus = true;
      else if (s[i] == ' ') spec.blank = true;
      else if (s[i] == '#') spec.alternate = true;
      else if (s[i] == '0') spec.zero = true;
      else break;
    }
    spec.width = number(i);
    if (spec.width < 0) spec.left = true, spec.width = -spec.width;
    if (i < s.size() && s[i] == '.') spec.precision = std::max<int64_t>(number(++i), 0);
    if (i < s.size() && (s[i] == 'l' || s[i] == 'h' || s[i] == 'L')) ++i;
    if (i >= s.size()) raise(Fault::value, "incomplete format");
    spec.type = s[i++];
    if (spec.type == '%') return w_.add("%");
    const Value v = given_by_name ? *given_by_name : next();
    convert(spec, v, i);
  }

  void convert(const PercentSpec& spec, const Value& v, size_t i) {
    switch (spec.type) {
      case 's': return put_text(spec, f_.markup ? escape_html(vm_.b, v) : to_str(vm_.b, v));
      case 'r': case 'a': {
        Writer r(vm_.b);
        write_repr(r, v);
        const Value t = r.take();
        return put_text(spec, f_.markup ? escape_html(vm_.b, t) : t);
      }
      case 'c': return put_text(spec, character(v));
      case 'd': case 'i': case 'u': case 'x': case 'X': case 'o': return put_number(spec, integer(spec, v));
      case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': return put_number(spec, real(spec, v));
      default:
        raise(Fault::value, std::string("unsupported format character '") + spec.type + "' (0x" +
                                int_digits(static_cast<unsigned char>(spec.type), 16, false) + ") at index " +
                                std::to_string(count_points(std::string_view(f_.text).substr(0, i - 1))));
    }
  }

  Value character(const Value& v) {
    if (v.is(Kind::string) && str(v).points == 1) return v;
    if (!v.is_int()) raise(Fault::type, "%c requires int or char");
    if (v.as_int() < 0 || v.as_int() > 0x10ffff || (v.as_int() >= 0xd800 && v.as_int() < 0xe000))
      raise(Fault::overflow, "%c arg not in range(0x110000)");
    std::string s;
    append_point(s, static_cast<char32_t>(v.as_int()));
    return make_string(vm_.b, std::move(s));
  }

  Number integer(const PercentSpec& spec, Value v) {
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (v.is(Kind::undefined)) raise_undefined(v);
    if (!v.is_number())
      raise(Fault::type, std::string("%") + spec.type + " format: " + (decimal ? "a real number" : "an integer") +
                             " is required, not " + type_name(v));
    if (v.is(Kind::real)) {
      if (!decimal) raise(Fault::type, std::string("%") + spec.type + " format: an integer is required, not float");
      if (!std::isfinite(v.as_real()))
        raise(Fault::overflow,
              std::isnan(v.as_real()) ? "cannot convert float NaN to integer" : "cannot convert float infinity to integer");
      v = make_number(std::trunc(v.as_real()));
    }
    Number n;
    n.digits = magnitude(v, decimal ? 10 : spec.type == 'o' ? 8 : 16, spec.type == 'X');
    if (spec.precision > static_cast<int64_t>(n.digits.size())) {
      vm_.b.check_string(static_cast<size_t>(spec.precision));
      n.digits.insert(0, static_cast<size_t>(spec.precision) - n.digits.size(), '0');
    }
    n.sign = is_negative(v) ? "-" : spec.plus ? "+" : spec.blank ? " " : "";
    if (spec.alternate && !decimal) n.prefix = spec.type == 'o' ? "0o" : spec.type == 'x' ? "0x" : "0X";
    return n;
  }

  Number real(const PercentSpec& spec, const Value& v) {
    if (v.is(Kind::undefined)) raise_undefined(v);
    if (!v.is_number()) raise(Fault::type, std::string("must be real number, not ") + type_name(v));
    const double d = number_real(v);
    Number n;
    n.digits = format_real(std::fabs(d), spec.type,
                           static_cast<int>(std::min<int64_t>(spec.precision < 0 ? 6 : spec.precision, 1000)), spec.alternate);
    n.sign = std::signbit(d) && !std::isnan(d) ? "-" : spec.plus ? "+" : spec.blank ? " " : "";
    return n;
  }

  void put_text(const PercentSpec& spec, const Value& v) {
    const Value cut = spec.precision >= 0 ? substring(vm_.b, str(v), 0, str(v).offset(static_cast<size_t>(spec.precision))) : v;
    const int64_t room = spec.width - static_cast<int64_t>(str(cut).points);
    if (!spec.left) write_padding(w_, static_cast<uint64_t>(std::max<int64_t>(room, 0)), " ");
    w_.add(str(cut));
    if (spec.left) write_padding(w_, static_cast<uint64_t>(std::max<int64_t>(room, 0)), " ");
  }

  void put_number(const PercentSpec& spec, const Number& n) {
    const auto room = static_cast<uint64_t>(
        std::max<int64_t>(spec.width - static_cast<int64_t>(n.sign.size() + n.prefix.size() + n.digits.size()), 0));
    const bool zeros = spec.zero && !spec.left;
    if (!spec.left && !zeros) write_padding(w_, room, " ");
    w_.add(n.sign), w_.add(n.prefix);
    if (zeros) write_padding(w_, room, "0");
    w_.add(n.digits);
    if (spec.left) write_padding(w_, room, " ");
  }

  Vm& vm_;
  const Str& f_;
  const Value& args_;
  Writer w_;
  bool mapping_;
  size_t used_ = 0;
};

// ---------------------------------------------------------------- {}

struct BraceSpec {
  std::string fill = " ";
  char align = 0, sign = 0, group = 0, type = 0;
  bool alternate = false;
  int64_t width = 0, precision = -1;
};

int64_t spec_number(std::string_view s, size_t& i) {
  int64_t n = -1;
  for (; i < s.size() && s[i] >= '0' && s[i] <= '9'; ++i) {
    n = std::max<int64_t>(n, 0) * 10 + (s[i] - '0');
    if (n > INT32_MAX) raise(Fault::value, "Too many decimal digits in format string");
  }
  return n;
}

BraceSpec parse_spec(std::string_view s, const Value& v) {
  BraceSpec out;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  size_t i = 0;
  if (!s.empty()) {
    size_t second = 0;
    next_point(s, second);
    if (second < s.size() && is_align(s[second])) out.fill = s.substr(0, second), out.align = s[second], i = second + 1;
    else if (is_align(s[0])) out.align = s[0], i = 1;
  }
  const auto flag = [&](std::string_view set) {
    return i < s.size() && set.find(s[i]) != std::string_view::npos ? s[i++] : '\0';
  };
  out.sign = flag("+- ");
  out.alternate = flag("#") != 0;
  if (i < s.size() && s[i] == '0') {
    if (!out.align) out.fill = "0", out.align = v.is(Kind::string) ? '<' : '=';
    ++i;
  }
  out.width = std::max<int64_t>(spec_number(s, i), 0);
  out.group = flag(",_");
  if (flag(".") != 0 && (out.precision = spec_number(s, i)) < 0) raise(Fault::value, "Format specifier missing precision");
  if (i < s.size()) out.type = s[i++];
  if (i < s.size())
    raise(Fault::value, "Invalid format specifier '" + std::string(s) + "' for object of type '" + type_name(v) + "'");
  return out;
}

std::string grouped(const std::string& digits, char mark, size_t every) {
  const size_t whole = std::min(digits.find_first_of(".e"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i && (whole - i) % every == 0) out += mark;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

class Braces {
 public:
  Braces(Vm& vm, const Str& f, const Args& args) : vm_(vm), f_(f), args_(args) {}

  Value run() {
    Writer w(vm_.b);
    expand(w, f_, 2);
    return w.take(f_.markup);
  }

 private:
  void expand(Writer& w, const Str& f, int depth) {
    if (depth < 0) raise(Fault::value, "Max string recursion exceeded");
    const std::string& s = f.text;
    for (size_t i = 0; i < s.size();) {
      const size_t hit = std::min(s.find_first_of("{}", i), s.size());
      w.add(f, i, hit);
      if (hit == s.size()) return;
      vm_.b.charge(1);
      if (hit + 1 < s.size() && s[hit + 1] == s[hit]) {
        w.add(f, hit, hit + 1);
        i = hit + 2;
        continue;
      }
      if (s[hit] == '}') raise(Fault::value, "Single '}' encountered in format string");
      i = hit + 1;
      size_t end = i;
      for (int open = 1; end < s.size(); ++end) {
        if (s[end] == '{') ++open;
        if (s[end] == '}' && --open == 0) break;
      }
      if (end >= s.size())
        raise(Fault::value, i >= s.size() ? "Single '{' encountered in format string" : "expected '}' before end of string");
      field(w, std::string_view(s).substr(i, end - i), depth);
      i = end + 1;
    }
  }

  void field(Writer& w, std::string_view s, int depth) {
    size_t split = 0;
    for (bool bracket = false; split < s.size() && (bracket || (s[split] != '!' && s[split] != ':')); ++split)
      bracket = s[split] == '[' || (bracket && s[split] != ']');
    const std::string_view name = s.substr(0, split);
    char conversion = 0;
    if (split < s.size() && s[split] == '!') {
      if (split + 1 >= s.size()) raise(Fault::value, "end of string while looking for conversion specifier");
      conversion = s[split + 1];
      split += 2;
      if (split < s.size() && s[split] != ':') raise(Fault::value, "expected ':' after conversion specifier");
    }
    Value v = resolve(name);
    if (conversion == 's') v = to_str(vm_.b, v);
    else if (conversion == 'r' || conversion == 'a') {
      Writer r(vm_.b);
      write_repr(r, v);
      v = r.take();
    } else if (conversion) raise(Fault::value, std::string("Unknown conversion specifier ") + conversion);
    const Value raw = make_string(vm_.b, std::string(split < s.size() ? s.substr(split + 1) : std::string_view()));
    Writer spec(vm_.b);
    expand(spec, str(raw), depth - 1);
    const Value done = spec.take();
    if (!f_.markup) return put(w, v, text(done));
    if (v.is(Kind::string) && str(v).markup) return w.add(str(v));
    Writer plain(vm_.b);
    put(plain, v, text(done));
    w.add(str(escape_html(vm_.b, plain.take())));
  }

  Value resolve(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value v = first(name.substr(0, first_end));
    for (size_t i = first_end; i < name.size();) {
      if (name[i] == '.') {
        const size_t end = std::min(name.find_first_of(".[", i + 1), name.size());
        if (end == i + 1) raise(Fault::value, "Empty attribute in format string");
        v = vm_.attribute(v, name.substr(i + 1, end - i - 1));
        i = end;
      } else if (name[i] == '[') {
        const size_t end = name.find(']', i);
        if (end == std::string_view::npos) raise(Fault::value, "Missing ']' in format string");
        const std::string_view key = name.substr(i + 1, end - i - 1);
        Value index;
        if (key.empty()) raise(Fault::value, "Empty attribute in format string");
        if (key.find_first_not_of("0123456789") != std::string_view::npos || !parse_int(key, 10, index))
          index = make_string(vm_.b, std::string(key));
        v = vm_.item(v, index);
        i = end + 1;
      } else {
        raise(Fault::value, "Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return v;
  }

  Value first(std::string_view key) {
    Value index;
    if (key.empty()) {
      if (manual_) raise(Fault::value, "cannot switch from manual field specification to automatic field numbering");
      index = Value::integer(automatic_++);
    } else if (key.find_first_not_of("0123456789") == std::string_view::npos && parse_int(key, 10, index)) {
      if (automatic_) raise(Fault::value, "cannot switch from manual field specification to automatic field numbering");
      manual_ = true;
    } else {
      const Value* v = args_.find(key);
      if (!v) raise(Fault::index, "'" + std::string(key) + "'");
      return *v;
    }
    const auto n = static_cast<int64_t>(args_.positional.size());
    if (!index.is_int() || index.as_int() >= n) raise(Fault::index, "tuple index out of range");
    return args_.positional[static_cast<size_t>(index.as_int())];
  }

  void put(Writer& w, const Value& v, std::string_view spec_text) {
    if (spec_text.empty()) return write_str(w, v);
    const BraceSpec spec = parse_spec(spec_text, v);
    if (v.is(Kind::string)) return put_text(w, spec, str(v));
    if (!v.is_number()) raise(Fault::type, std::string("unsupported format string passed to ") + type_name(v) + ".__format__");
    const bool real_type = spec.type && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
    if (v.is(Kind::real) || real_type) return put_number(w, spec, real(spec, v));
    put_number(w, spec, integer(w, spec, v));
  }

  [[noreturn]] void unknown(const BraceSpec& spec, const Value& v) {
    raise(Fault::value, std::string("Unknown format code '") + spec.type + "' for object of type '" + type_name(v) + "'");
  }

  void put_text(Writer& w, const BraceSpec& spec, const Str& s) {
    if (spec.type && spec.type != 's') unknown(spec, make_literal({}));
    if (spec.sign) raise(Fault::value, "Sign not allowed in string format specifier");
    if (spec.align == '=') raise(Fault::value, "'=' alignment not allowed in string format specifier");
    const size_t end = spec.precision >= 0 ? s.offset(static_cast<size_t>(spec.precision)) : s.text.size();
    const auto points =
        static_cast<int64_t>(spec.precision >= 0 ? std::min<size_t>(s.points, static_cast<size_t>(spec.precision)) : s.points);
    const auto room = static_cast<uint64_t>(std::max<int64_t>(spec.width - points, 0));
    const uint64_t left = spec.align == '>' ? room : spec.align == '^' ? room / 2 : 0;
    write_padding(w, left, spec.fill), w.add(s, 0, end), write_padding(w, room - left, spec.fill);
  }

  Number integer(Writer&, const BraceSpec& spec, const Value& v) {
    const char t = spec.type ? spec.type : 'd';
    if (spec.precision >= 0) raise(Fault::value, "Precision not allowed in integer format specifier");
    Number n;
    if (t == 'c') {
      append_point(n.digits, static_cast<char32_t>(std::clamp<int64_t>(v.as_int(), 0, 0xd7ff)));
      return n;
    }
    const unsigned base = t == 'd' || t == 'n' ? 10 : t == 'x' || t == 'X' ? 16 : t == 'o' ? 8 : t == 'b' ? 2 : 0;
    if (!base) unknown(spec, v);
    n.digits = magnitude(v, base, t == 'X');
    if (spec.group) n.digits = grouped(n.digits, spec.group, base == 10 ? 3 : 4);
    if (spec.alternate && base != 10) n.prefix = std::string("0") + t;
    n.sign = is_negative(v) ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
    return n;
  }

  Number real(const BraceSpec& spec, const Value& v) {
    const double d = number_real(v);
    const double m = std::fabs(d);
    const int precision = static_cast<int>(std::min<int64_t>(spec.precision, 1000));
    Number n;
    switch (spec.type) {
      case 0:
        n.digits = precision < 0 ? repr_real(m) : format_real(m, 'g', precision);
        if (precision >= 0 && std::isfinite(m) && n.digits.find_first_of(".e") == std::string::npos) n.digits += ".0";
        break;
      case '%': n.digits = format_real(m * 100, 'f', precision < 0 ? 6 : precision) + "%"; break;
      case 'n': n.digits = format_real(m, 'g', precision < 0 ? 6 : precision); break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        n.digits = format_real(m, spec.type, precision < 0 ? 6 : precision, spec.alternate);
        break;
      default: unknown(spec, v);
    }
    if (spec.group && std::isfinite(m)) n.digits = grouped(n.digits, spec.group, 3);
    n.sign = std::signbit(d) && !std::isnan(d) ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
    return n;
  }

  void put_number(Writer& w, const BraceSpec& spec, const Number& n) {
    const auto size = static_cast<int64_t>(n.sign.size() + n.prefix.size() + count_points(n.digits));
    const auto room = static_cast<uint64_t>(std::max<int64_t>(spec.width - size, 0));
    const char align = spec.align ? spec.align : '>';
    const uint64_t left = align == '>' ? room : align == '^' ? room / 2 : 0;
    write_padding(w, left, spec.fill);
    w.add(n.sign), w.add(n.prefix);
    if (align == '=') write_padding(w, room, spec.fill);
    w.add(n.digits);
    if (align != '=') write_padding(w, room - left, spec.fill);
  }

  Vm& vm_;
  const Str& f_;
  const Args& args_;
  int64_t automatic_ = 0;
  bool manual_ = false;
};

}  // namespace

Value format_percent(Vm& vm, const Str& format, const Value& args) { return Percent(vm, format, args).run(); }
Value format_braces(Vm& vm, const Str& format, const Args& args) { return Braces(vm, format, args).run(); }

}  // namespace isotope::text::jinja
