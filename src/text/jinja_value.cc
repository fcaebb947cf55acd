#include "text/jinja_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja_number.h"
#include "text/jinja_repr.h"
#include "text/jinja_unicode.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {

void raise(Fault fault, std::string what, uint32_t pos) { throw Failure{fault, std::move(what), pos}; }

void Budget::check_string(size_t bytes) const {
  if (bytes > max_string) raise(Fault::limit, "a string grows beyond " + std::to_string(max_string) + " bytes");
  if (live + bytes > max_live)
    raise(Fault::limit, "the strings of one render take more than " + std::to_string(max_live) + " bytes");
}

void Budget::check_items(size_t n) {
  if (n > max_items) raise(Fault::limit, "a container grows beyond " + std::to_string(max_items) + " items");
  charge(n);
}

namespace {

void set_depth(Budget& b, Object& o, uint32_t inner) {
  o.depth = inner + 1;
  if (o.depth > b.max_nesting) raise(Fault::limit, "values are nested more than " + std::to_string(b.max_nesting) + " deep");
}

Value make_sequence(Budget& b, Kind kind, std::vector<Value> items) {
  b.check_items(items.size());
  auto o = std::make_shared<Seq>();
  uint32_t inner = 0;
  for (const Value& v : items) inner = std::max(inner, v.depth());
  set_depth(b, *o, inner);
  o->items = std::move(items);
  return {kind, std::move(o)};
}

constexpr size_t kIndexFrom = 12;  // below, a linear search is faster than hashing

}  // namespace

Value make_list(Budget& b, std::vector<Value> items) { return make_sequence(b, Kind::list, std::move(items)); }
Value make_tuple(Budget& b, std::vector<Value> items) { return make_sequence(b, Kind::tuple, std::move(items)); }

Value make_dict(Budget& b, std::shared_ptr<Dict> d) {
  uint32_t inner = 0;
  for (const auto& [k, v] : d->items()) inner = std::max({inner, k.depth(), v.depth()});
  set_depth(b, *d, inner);
  return {Kind::dict, std::move(d)};
}

Value make_lazy(std::function<bool(Value&)> step, const Value& source, const char* type) {
  auto o = std::make_shared<Lazy>(std::move(step));
  o->type = type;
  o->depth = source.depth() + 1;
  if (o->depth > Budget{}.max_nesting)
    raise(Fault::limit, "iterators are chained more than " + std::to_string(Budget{}.max_nesting) + " deep");
  return {Kind::iterator, std::move(o)};
}

Value make_undefined(std::string name) {
  auto o = std::make_shared<Undefined>();
  o->name = std::move(name);
  return {Kind::undefined, std::move(o)};
}

Value make_undefined(const Value& owner, const Value& name) {
  auto o = std::make_shared<Undefined>();
  o->owner = owner.is(Kind::none) ? "None" : std::string(type_name(owner)) + " object";
  if (owner.is(Kind::space)) o->owner = "transformers.utils.chat_template_utils.TemplateNamespace object";
  o->element = !name.is(Kind::string);
  o->name = o->element ? repr_text(name) : std::string(text(name));
  return {Kind::undefined, std::move(o)};
}

Value make_hint(std::string hint, Fault fault) {
  auto o = std::make_shared<Undefined>();
  o->hint = std::move(hint);
  o->fault = fault;
  return {Kind::undefined, std::move(o)};
}

std::string Undefined::message() const {
  if (!hint.empty()) return hint;
  if (owner.empty()) return "'" + name + "' is undefined";
  return element ? owner + " has no element " + name : "'" + owner + "' has no attribute '" + name + "'";
}

void raise_undefined(const Value& v) { raise(v.as<Undefined>().fault, v.as<Undefined>().message()); }

Value make_big(std::string digits) {
  auto o = std::make_shared<BigInt>();
  o->digits = std::move(digits);
  return {Kind::big, std::move(o)};
}

Value make_number(double d) {
  if (d >= -9223372036854775808.0 && d < 9223372036854775808.0) return Value::integer(static_cast<int64_t>(d));
  char digits[400];
  const auto r = std::to_chars(digits, digits + sizeof digits, d, std::chars_format::fixed, 0);
  return make_big(std::string(digits, r.ptr));
}

const char* type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::missing: case Kind::undefined: return "Undefined";
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer: case Kind::big: return "int";
    case Kind::real: return "float";
    case Kind::string: return str(v).markup ? "Markup" : "str";
    case Kind::bytes: return "bytes";
    case Kind::list: return "list";
    case Kind::tuple: return v.as<Seq>().group ? "_GroupTuple" : "tuple";
    case Kind::dict: return "dict";
    case Kind::view:
      return v.as<View>().what == View::keys ? "dict_keys" : v.as<View>().what == View::values ? "dict_values" : "dict_items";
    case Kind::range: return "range";
    case Kind::iterator: return v.as<Iter>().type;
    case Kind::space: return "TemplateNamespace";
    case Kind::function: return v.as<Function>().type;
    case Kind::macro: return "Macro";
    case Kind::loop: return "LoopContext";
    case Kind::cycler: return "Cycler";
    case Kind::joiner: return "Joiner";
  }
  return "object";
}

bool truth(const Value& v) {
  switch (v.kind()) {
    case Kind::missing: case Kind::undefined: case Kind::none: return false;
    case Kind::boolean: case Kind::integer: return v.as_int() != 0;
    case Kind::real: return v.as_real() != 0;
    case Kind::string: return !text(v).empty();
    case Kind::bytes: return !v.as<Bytes>().data.empty();
    case Kind::list: case Kind::tuple: return !v.as<Seq>().items.empty();
    case Kind::dict: return v.as<Dict>().size() != 0;
    case Kind::view: return v.as<View>().dict->size() != 0;
    case Kind::range: return v.as<RangeObject>().size() != 0;
    case Kind::loop: return v.as<Loop>().length() != 0;
    default: return true;
  }
}

bool is_callable(const Value& v) {
  return v.is(Kind::function) || v.is(Kind::macro) || v.is(Kind::loop) || v.is(Kind::joiner) || v.is(Kind::undefined);
}

int64_t RangeObject::size() const {
  const __int128 span = static_cast<__int128>(stop) - start;
  if (step > 0) return span <= 0 ? 0 : static_cast<int64_t>(std::min<__int128>((span + step - 1) / step, INT64_MAX));
  return span >= 0 ? 0 : static_cast<int64_t>(std::min<__int128>((span + step + 1) / step, INT64_MAX));
}

size_t length(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined: return 0;
    case Kind::string: return str(v).points;
    case Kind::bytes: return v.as<Bytes>().data.size();
    case Kind::list: case Kind::tuple: return v.as<Seq>().items.size();
    case Kind::dict: return v.as<Dict>().size();
    case Kind::view: return v.as<View>().dict->size();
    case Kind::range: return static_cast<size_t>(v.as<RangeObject>().size());
    case Kind::loop: return v.as<Loop>().length();
    default: raise(Fault::type, std::string("object of type '") + type_name(v) + "' has no len()");
  }
}

size_t hash(Budget& b, const Value& v) {
  switch (v.kind()) {
    case Kind::missing: case Kind::undefined: return 0x51ed;
    case Kind::none: return 0xa11;
    case Kind::boolean: case Kind::integer: return std::hash<double>()(static_cast<double>(v.as_int()));
    case Kind::real: return std::hash<double>()(v.as_real());
    case Kind::big: return std::hash<std::string>()(v.as<BigInt>().digits);
    case Kind::string: b.charge(text(v).size() / 256); return std::hash<std::string_view>()(text(v));
    case Kind::bytes: return std::hash<std::string>()(v.as<Bytes>().data);
    case Kind::tuple: {
      size_t h = 0x345678;
      for (const Value& x : v.as<Seq>().items) b.charge(1), h = (h ^ hash(b, x)) * 0x9e3779b97f4a7c15u;
      return h;
    }
    case Kind::list: case Kind::dict: raise(Fault::type, std::string("unhashable type: '") + type_name(v) + "'");
    default: return std::hash<const void*>()(v.object());
  }
}

const Value* Dict::find(Budget& b, const Value& key) const {
  if (items_.size() < kIndexFrom) {
    if (key.is(Kind::list) || key.is(Kind::dict) || key.is(Kind::tuple)) hash(b, key);  // the check Python makes first
    for (const auto& [k, v] : items_)
      if (equal(b, k, key)) return &v;
    return nullptr;
  }
  const auto [first, last] = index_.equal_range(hash(b, key));
  for (auto i = first; i != last; ++i)
    if (equal(b, items_[i->second].first, key)) return &items_[i->second].second;
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (items_.size() < kIndexFrom) {
    for (const auto& [k, v] : items_)
      if (k.is(Kind::string) && text(k) == key) return &v;
    return nullptr;
  }
  const auto [first, last] = index_.equal_range(std::hash<std::string_view>()(key));
  for (auto i = first; i != last; ++i)
    if (items_[i->second].first.is(Kind::string) && text(items_[i->second].first) == key) return &items_[i->second].second;
  return nullptr;
}

void Dict::set(Budget& b, Value key, Value value) {
  if (const Value* old = find(b, key)) {
    const_cast<Value&>(*old) = std::move(value);
    return;
  }
  if (items_.size() >= b.max_items) b.check_items(items_.size() + 1);
  b.charge(1);
  items_.emplace_back(std::move(key), std::move(value));
  if (items_.size() == kIndexFrom)
    for (uint32_t i = 0; i < items_.size(); ++i) index_.emplace(hash(b, items_[i].first), i);
  else if (items_.size() > kIndexFrom)
    index_.emplace(hash(b, items_.back().first), static_cast<uint32_t>(items_.size() - 1));
}

}  // namespace isotope::text::jinja
