#include "weights/metadata.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "weights/json.h"

namespace isotope::weights {

namespace {

using nlohmann::json;

struct TypeRow {
  std::string_view name;
  size_t bytes;
};
constexpr TypeRow kTypes[] = {{"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
                              {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8}};

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

std::optional<int64_t> whole(double v) {
  if (v >= -0x1p63 && v < 0x1p63 && std::trunc(v) == v) return int64_t(v);
  return std::nullopt;
}

std::optional<int64_t> signed64(uint64_t v) {
  if (v <= uint64_t(std::numeric_limits<int64_t>::max())) return int64_t(v);
  return std::nullopt;
}

std::optional<int64_t> as_integer(GgufType t, const std::byte* p) {
  switch (t) {
    case GgufType::u8: return load<uint8_t>(p);
    case GgufType::i8: return load<int8_t>(p);
    case GgufType::u16: return load<uint16_t>(p);
    case GgufType::i16: return load<int16_t>(p);
    case GgufType::u32: return load<uint32_t>(p);
    case GgufType::i32: return load<int32_t>(p);
    case GgufType::u64: return signed64(load<uint64_t>(p));
    case GgufType::i64: return load<int64_t>(p);
    case GgufType::f32: return whole(double(load<float>(p)));
    case GgufType::f64: return whole(load<double>(p));
    default: return std::nullopt;
  }
}

std::optional<double> as_number(GgufType t, const std::byte* p) {
  if (t == GgufType::f32) return double(load<float>(p));
  if (t == GgufType::f64) return load<double>(p);
  if (t == GgufType::u64) return double(load<uint64_t>(p));
  if (const auto i = as_integer(t, p)) return double(*i);
  return std::nullopt;
}

std::optional<bool> as_boolean(GgufType t, const std::byte* p) {
  if (t != GgufType::boolean) return std::nullopt;
  return load<uint8_t>(p) != 0;
}

std::optional<std::string_view> as_string(GgufType t, const std::byte* p) {
  if (t != GgufType::string) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(p) + 8, size_t(load<uint64_t>(p)));
}

std::optional<int64_t> as_integer(const json& j) {
  if (j.is_number_unsigned()) return signed64(j.get<uint64_t>());
  if (j.is_number_integer()) return j.get<int64_t>();
  if (j.is_number_float()) return whole(j.get<double>());
  return std::nullopt;
}
std::optional<double> as_number(const json& j) { return j.is_number() ? std::optional(j.get<double>()) : std::nullopt; }
std::optional<bool> as_boolean(const json& j) { return j.is_boolean() ? std::optional(j.get<bool>()) : std::nullopt; }
std::optional<std::string_view> as_string(const json& j) {
  return j.is_string() ? std::optional<std::string_view>(j.get_ref<const std::string&>()) : std::nullopt;
}

const json* descend(const json& root, std::string_view path) {
  const json* at = &root;
  for (;;) {
    if (!at->is_object()) return nullptr;
    if (const auto it = at->find(std::string(path)); it != at->end()) return &*it;
    const size_t dot = path.find('.');
    if (dot == path.npos) return nullptr;
    const auto it = at->find(std::string(path.substr(0, dot)));
    if (it == at->end()) return nullptr;
    at = &*it;
    path.remove_prefix(dot + 1);
  }
}

std::string_view json_type(const json& j) {
  if (j.is_number_integer()) return "integer";
  if (j.is_number()) return "number";
  return j.type_name();
}

std::string cut(std::string s, size_t limit) {
  if (s.size() <= limit) return s;
  while (limit > 0 && (static_cast<unsigned char>(s[limit]) & 0xc0) == 0x80) --limit;
  s.resize(limit);
  return s + "…";
}

template <class F>
std::string shortest(F v) {
  char b[32];
  return {b, std::to_chars(b, b + sizeof b, v).ptr};
}

std::string scalar_text(GgufType t, const std::byte* p) {
  if (t == GgufType::string) return std::string(*as_string(t, p));
  if (t == GgufType::boolean) return *as_boolean(t, p) ? "true" : "false";
  if (t == GgufType::f32) return shortest(load<float>(p));
  if (t == GgufType::f64) return shortest(load<double>(p));
  if (t == GgufType::u64) return std::to_string(load<uint64_t>(p));
  return std::to_string(*as_integer(t, p));
}

}  // namespace

std::string_view gguf_type_name(GgufType t) { return size_t(t) < std::size(kTypes) ? kTypes[size_t(t)].name : "unknown"; }
size_t gguf_type_bytes(GgufType t) { return size_t(t) < std::size(kTypes) ? kTypes[size_t(t)].bytes : 0; }

Metadata Metadata::from_gguf(std::vector<std::pair<std::string, GgufValue>> values, std::string source) {
  Metadata m;
  m.source_ = std::move(source);
  m.values_ = std::move(values);
  for (size_t i = 0; i < m.values_.size(); ++i) m.index_.emplace(m.values_[i].first, i);
  return m;
}

Result<Metadata> Metadata::from_json(std::string_view text, std::string source) {
  ISO_TRY(json tree, parse_json(text, source));
  if (!tree.is_object())
    return fail(Code::data_loss, "the file holds " + std::string(json_type(tree)) + " where an object is expected", source,
                "use the model's own config.json");
  Metadata m;
  m.source_ = std::move(source);
  m.json_ = std::make_shared<const json>(std::move(tree));
  return m;
}

Result<Metadata> Metadata::with_overrides(const std::map<std::string, std::string>& overrides) const {
  json flat = overrides_ ? *overrides_ : json::object();
  for (const auto& [key, text] : overrides) {
    auto value = parse_json(text, "override of " + key);
    flat[key] = value ? std::move(*value) : json(text);
  }
  Metadata m = *this;
  m.overrides_ = std::make_shared<const json>(std::move(flat));
  return m;
}

Metadata::Found Metadata::find(std::string_view key) const {
  if (overrides_) {
    if (const auto it = overrides_->find(std::string(key)); it != overrides_->end())
      return it->is_null() ? Found{} : Found{nullptr, &*it};
    // An object given as an override also answers for the paths below it.
    for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1))
      if (const auto it = overrides_->find(std::string(key.substr(0, dot))); it != overrides_->end()) {
        const json* j = descend(*it, key.substr(dot + 1));
        return j && !j->is_null() ? Found{nullptr, j} : Found{};
      }
  }
  if (json_) {
    const json* j = descend(*json_, key);
    return j && !j->is_null() ? Found{nullptr, j} : Found{};
  }
  const auto it = index_.find(std::string(key));
  return it == index_.end() ? Found{} : Found{&values_[it->second].second, nullptr};
}

tl::unexpected<Error> Metadata::missing(std::string_view key) const {
  return fail(Code::data_loss, "key " + quote_name(key) + " is missing", source_,
              "use a complete file of a supported architecture");
}

tl::unexpected<Error> Metadata::mismatch(std::string_view key, std::string_view expected) const {
  return fail(Code::data_loss,
              "key " + quote_name(key) + " is " + type_name(key) + " (" + text(key, 40) + "), expected " + std::string(expected),
              source_, "use a file written by a current converter");
}

bool Metadata::has(std::string_view key) const { return bool(find(key)); }

const GgufValue* Metadata::gguf(std::string_view key) const { return find(key).gguf; }

bool Metadata::is_array(std::string_view key) const {
  const Found f = find(key);
  return (f.gguf && f.gguf->is_array) || (f.json && f.json->is_array());
}

Result<Metadata::Found> Metadata::scalar(std::string_view key, std::string_view expected) const {
  const Found f = find(key);
  if (!f) return missing(key);
  if (f.gguf && f.gguf->is_array) return mismatch(key, expected);
  return f;
}

Result<std::string_view> Metadata::string(std::string_view key) const {
  ISO_TRY(const Found f, scalar(key, "a string"));
  if (const auto v = f.gguf ? as_string(f.gguf->type, f.gguf->bytes.data()) : as_string(*f.json)) return *v;
  return mismatch(key, "a string");
}

Result<int64_t> Metadata::integer(std::string_view key) const {
  ISO_TRY(const Found f, scalar(key, "an integer"));
  if (const auto v = f.gguf ? as_integer(f.gguf->type, f.gguf->bytes.data()) : as_integer(*f.json)) return *v;
  return mismatch(key, "a 64-bit integer");
}

Result<double> Metadata::number(std::string_view key) const {
  ISO_TRY(const Found f, scalar(key, "a number"));
  if (const auto v = f.gguf ? as_number(f.gguf->type, f.gguf->bytes.data()) : as_number(*f.json)) return *v;
  return mismatch(key, "a number");
}

Result<bool> Metadata::boolean(std::string_view key) const {
  ISO_TRY(const Found f, scalar(key, "a boolean"));
  if (const auto v = f.gguf ? as_boolean(f.gguf->type, f.gguf->bytes.data()) : as_boolean(*f.json)) return *v;
  return mismatch(key, "a boolean");
}

Result<std::string_view> Metadata::string_or(std::string_view key, std::string_view d) const {
  return has(key) ? string(key) : Result<std::string_view>(d);
}
Result<int64_t> Metadata::integer_or(std::string_view key, int64_t d) const {
  return has(key) ? integer(key) : Result<int64_t>(d);
}
Result<double> Metadata::number_or(std::string_view key, double d) const { return has(key) ? number(key) : Result<double>(d); }
Result<bool> Metadata::boolean_or(std::string_view key, bool d) const { return has(key) ? boolean(key) : Result<bool>(d); }

// `convert` is called with (GgufType, bytes) or (json) and returns an optional<T>.
template <class T, class F>
Result<std::vector<T>> Metadata::elements(std::string_view key, std::string_view expected, F convert) const {
  const Found f = find(key);
  if (!f) return missing(key);
  if (!is_array(key)) return mismatch(key, expected);
  std::vector<T> out;
  if (f.json) {
    for (const json& j : *f.json) {
      const auto v = convert(j);
      if (!v) return mismatch(key, expected);
      out.push_back(*v);
    }
    return out;
  }
  out.reserve(size_t(f.gguf->count));
  const std::byte* p = f.gguf->bytes.data();
  for (uint64_t i = 0; i < f.gguf->count; ++i) {
    const auto v = convert(f.gguf->type, p);
    if (!v) return mismatch(key, expected);
    out.push_back(*v);
    p += f.gguf->type == GgufType::string ? 8 + load<uint64_t>(p) : gguf_type_bytes(f.gguf->type);
  }
  return out;
}

Result<std::vector<std::string_view>> Metadata::strings(std::string_view key) const {
  return elements<std::string_view>(key, "an array of strings", [](const auto&... a) { return as_string(a...); });
}
Result<std::vector<int64_t>> Metadata::integers(std::string_view key) const {
  return elements<int64_t>(key, "an array of integers", [](const auto&... a) { return as_integer(a...); });
}
Result<std::vector<double>> Metadata::numbers(std::string_view key) const {
  return elements<double>(key, "an array of numbers", [](const auto&... a) { return as_number(a...); });
}
Result<std::vector<bool>> Metadata::booleans(std::string_view key) const {
  return elements<bool>(key, "an array of booleans", [](const auto&... a) { return as_boolean(a...); });
}

Result<std::string> Metadata::bytes(std::string_view key) const {
  const Found f = find(key);
  if (!f) return missing(key);
  if (!f.gguf || !f.gguf->is_array || (f.gguf->type != GgufType::u8 && f.gguf->type != GgufType::i8))
    return mismatch(key, "an array of bytes");
  return std::string(reinterpret_cast<const char*>(f.gguf->bytes.data()), f.gguf->bytes.size());
}

std::vector<std::string> Metadata::keys() const {
  std::vector<std::string> out;
  if (json_)
    for (const auto& item : json_->items()) out.push_back(item.key());
  for (const auto& [key, value] : values_) out.push_back(key);
  return out;
}

std::string Metadata::type_name(std::string_view key) const {
  const Found f = find(key);
  if (f.json) return std::string(json_type(*f.json));
  if (!f) return {};
  std::string s = f.gguf->is_array ? "array of " : "";
  return s += gguf_type_name(f.gguf->type);
}

std::string Metadata::text(std::string_view key, size_t limit) const {
  const Found f = find(key);
  if (!f) return {};
  if (f.json)
    return cut(f.json->is_string() ? f.json->get<std::string>() : f.json->dump(-1, ' ', false, json::error_handler_t::replace),
               limit);
  const GgufValue& v = *f.gguf;
  if (!v.is_array) return cut(scalar_text(v.type, v.bytes.data()), limit);
  if (v.count > 16 || v.type == GgufType::string) return "[" + std::to_string(v.count) + " elements]";
  std::string s = "[";
  const size_t size = gguf_type_bytes(v.type);
  for (uint64_t i = 0; i < v.count; ++i) s.append(i ? ", " : "").append(scalar_text(v.type, v.bytes.data() + i * size));
  return cut(s + "]", limit);
}

}  // namespace isotope::weights
