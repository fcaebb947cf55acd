// Functions every template can call.
#include <algorithm>
#include <cstring>
#include <ctime>

#include "text/jinja_call.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;  // as Jinja's sandbox

Value range(Vm&, const Value&, Args& args) {
  const auto& p = args.positional;
  if (!args.named.empty()) raise(Fault::type, "range() takes no keyword arguments");
  if (p.empty()) raise(Fault::type, "range expected at least 1 argument, got 0");
  if (p.size() > 3) raise(Fault::type, "range expected at most 3 arguments, got " + std::to_string(p.size()));
  auto r = std::make_shared<RangeObject>();
  r->start = p.size() > 1 ? int_arg(p[0], "range()") : 0;
  r->stop = int_arg(p[p.size() > 1 ? 1 : 0], "range()");
  r->step = p.size() > 2 ? int_arg(p[2], "range()") : 1;
  if (r->step == 0) raise(Fault::value, "range() arg 3 must not be zero");
  if (r->size() > kMaxRange) raise(Fault::overflow, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  return {Kind::range, std::move(r)};
}

// dict(mapping or pairs, **named)
std::shared_ptr<Dict> build_dict(Vm& vm, Args& args) {
  auto d = std::make_shared<Dict>();
  if (args.positional.size() > 1)
    raise(Fault::type, "dict expected at most 1 argument, got " + std::to_string(args.positional.size()));
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is(Kind::dict)) {
      for (const auto& [k, v] : from.as<Dict>().items()) d->set(vm.b, k, v);
    } else {
      size_t i = 0;
      for (const Value& item : collect(vm.b, from)) {
        if (!is_iterable(item))
          raise(Fault::type, "cannot convert dictionary update sequence element #" + std::to_string(i) + " to a sequence");
        const std::vector<Value> pair = collect(vm.b, item);
        if (pair.size() != 2)
          raise(Fault::value, "dictionary update sequence element #" + std::to_string(i) + " has length " +
                                  std::to_string(pair.size()) + "; 2 is required");
        d->set(vm.b, pair[0], pair[1]);
        ++i;
      }
    }
  }
  for (auto& [name, v] : args.named) d->set(vm.b, make_string(vm.b, name, true), v);
  return d;
}

Value dict(Vm& vm, const Value&, Args& args) { return make_dict(vm.b, build_dict(vm, args)); }

Value space(Vm& vm, const Value&, Args& args) {
  auto d = build_dict(vm, args);
  for (const auto& [k, v] : d->items())
    if (k.is(Kind::string) && !text(k).empty() && text(k)[0] == '_')
      raise(Fault::security, "Chat templates cannot store underscore-prefixed attributes on a namespace, but got " +
                                 repr_text(k) + ". Please rename the attribute.");
  return vm.make_space(std::move(d));
}

Value cycler(Vm& vm, const Value&, Args& args) {
  if (args.positional.empty()) raise(Fault::runtime, "at least one item has to be provided");
  auto c = std::make_shared<Cycler>();
  c->depth = make_tuple(vm.b, args.positional).depth();
  c->items = args.positional;
  return {Kind::cycler, std::move(c)};
}

Value joiner(Vm&, const Value* a) {
  auto j = std::make_shared<Joiner>();
  j->separator = given(a[1]) ? a[1] : make_literal(", ");
  j->depth = j->separator.depth() + 1;
  return {Kind::joiner, std::move(j)};
}

Value raise_exception(Vm& vm, const Value* a) { raise(Fault::raised, std::string(text(to_str(vm.b, a[1])))); }

Value strftime_now(Vm& vm, const Value* a) {
  return make_string(vm.b, format_time(vm.context(), str_arg(a[1], "strftime() argument 1").text), is_content(a[1]));
}

constexpr Row kRows[] = {
    {"range", "", 0, nullptr, range},
    {"dict", "", 0, nullptr, dict},
    {"namespace", "", 0, nullptr, space},
    {"cycler", "", 0, nullptr, cycler},
    {"joiner", "sep", 0, joiner},
    {"raise_exception", "message", 1, raise_exception},
    {"strftime_now", "format", 1, strftime_now},
};

}  // namespace

const Row* find_global(std::string_view name) {
  for (const Row& r : kRows)
    if (r.name == name) return &r;
  return nullptr;
}

std::string format_time(const Context& c, std::string_view format) {
  if (format.size() > 4096) raise(Fault::value, "a time format longer than 4096 bytes");
  if (format.find('\0') != kNone) raise(Fault::value, "embedded null character");
  const auto t = static_cast<time_t>(c.now);
  std::tm tm{};
  if (!(c.now_is_utc ? gmtime_r(&t, &tm) : localtime_r(&t, &tm))) raise(Fault::value, "the time is out of range");
  tm.tm_isdst = -1;
  std::string f;  // datetime fills these in itself; it has no zone here
  for (size_t i = 0; i < format.size(); ++i) {
    const char code = format[i] == '%' && i + 1 < format.size() ? format[i + 1] : '\0';
    if (code == 'f') f += "000000";
    else if (code == '%') f += "%%";
    else if (code != 'z' && code != 'Z') { f += format[i]; continue; }
    ++i;
  }
  if (f.empty()) return {};
  std::string out(f.size() * 32 + 256, '\0');
  const size_t n = std::strftime(out.data(), out.size(), f.c_str(), &tm);
  out.resize(n);
  return out;
}

}  // namespace isotope::text::jinja
