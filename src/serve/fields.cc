#include "serve/fields.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace isotope::serve {
namespace {

const char* type_name(const Json& v) {
  switch (v.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "an array";
    case Json::value_t::string: return "the string ";
    case Json::value_t::boolean: return "the boolean ";
    default: return "the number ";
  }
}

std::string number_text(double v) { return fmt::format("{}", v); }

}  // namespace

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t v = value.get<uint64_t>();
    return v <= uint64_t(INT64_MAX) ? std::optional<int64_t>(int64_t(v)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double v = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53: above it a double is no longer one certain integer
  if (!(std::abs(v) <= kExact) || v != std::floor(v)) return std::nullopt;
  return int64_t(v);
}

Fields::Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {}

Result<Fields> Fields::of(const Json& value, std::string path) {
  if (!value.is_object()) return bad_field(path.empty() ? "body" : path, mismatch("an object", value));
  return Fields(value, std::move(path));
}

std::string Fields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const Json* Fields::find(std::string_view name) const {
  for (const auto& [key, value] : object_->get_ref<const Json::object_t&>()) {
    if (key == name) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

std::string Fields::mismatch(std::string_view expected, const Json& got) {
  std::string text = "expected " + std::string(expected) + ", got " + type_name(got);
  if (got.is_primitive() && !got.is_null()) text += shown(got);
  return text;
}

Result<std::optional<bool>> Fields::boolean(std::string_view name) const {
  const Json* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_boolean()) return bad_field(path(name), mismatch("a boolean", *v), "send true or false without quotes");
  return v->get<bool>();
}

Result<std::optional<int64_t>> Fields::integer(std::string_view name, int64_t low, int64_t high) const {
  const Json* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_number()) return bad_field(path(name), mismatch("an integer", *v), "send a number without quotes");
  const auto i = as_integer(*v);
  if (!i && v->is_number_float() && std::abs(v->get<double>()) < 1e15) return bad_field(path(name), mismatch("an integer", *v));
  if (!i || *i < low || *i > high) {
    const bool above = i ? *i > high : v->get<double>() > 0;
    const std::string range = high != INT64_MAX ? fmt::format("between {} and {}", low, high) : above ? fmt::format("at most {}", high) : fmt::format("at least {}", low);
    return bad_field(path(name), fmt::format("{} must be {}, got {}", name, range, shown(*v)));
  }
  return *i;
}

Result<std::optional<double>> Fields::number(std::string_view name, double low, double high, bool low_open) const {
  const Json* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_number()) return bad_field(path(name), mismatch("a number", *v), "send a number without quotes");
  const double d = v->get<double>();
  if (!std::isfinite(d) || d < low || d > high || (low_open && d == low)) {
    std::string range = (low_open ? "greater than " : "at least ") + number_text(low);
    if (high < 1e30) {
      range += " and at most " + number_text(high);
    } else if (d > high) {
      range = "at most " + number_text(high);
    }
    return bad_field(path(name), fmt::format("{} must be {}, got {}", name, range, shown(*v)));
  }
  return d;
}

Result<std::optional<std::string>> Fields::string(std::string_view name) const {
  const Json* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_string()) return bad_field(path(name), mismatch("a string", *v));
  return v->get<std::string>();
}

Result<std::vector<std::string>> Fields::strings(std::string_view name, size_t most, bool single_allowed) const {
  std::vector<std::string> out;
  const Json* v = find(name);
  if (v == nullptr) return out;
  if (single_allowed && v->is_string()) {
    out.push_back(v->get<std::string>());
    return out;
  }
  if (!v->is_array()) return bad_field(path(name), mismatch(single_allowed ? "a string or an array of strings" : "an array of strings", *v));
  if (v->size() > most) return bad_field(path(name), fmt::format("{} has {} entries, at most {} are allowed", name, v->size(), most));
  for (size_t i = 0; i < v->size(); ++i) {
    const Json& item = (*v)[i];
    if (!item.is_string()) return bad_field(fmt::format("{}[{}]", path(name), i), mismatch("a string", item));
    out.push_back(item.get<std::string>());
  }
  return out;
}

Result<std::vector<int32_t>> Fields::ids(std::string_view name, int64_t low, int64_t high) const {
  std::vector<int32_t> out;
  ISO_TRY(const Json* v, array(name));
  if (v == nullptr) return out;
  out.reserve(v->size());
  for (size_t i = 0; i < v->size(); ++i) {
    const Json& item = (*v)[i];
    const int64_t id = as_integer(item).value_or(-1);
    if (id >= low && id <= high) {
      out.push_back(int32_t(id));
      continue;
    }
    const std::string at = fmt::format("{}[{}]", path(name), i);
    const bool fraction = item.is_number_float() && std::abs(item.get<double>()) < 1e15 && !as_integer(item);
    if (!item.is_number() || fraction) return bad_field(at, mismatch("an integer token id", item));
    return bad_field(at, fmt::format("token id {} is out of vocabulary (ids {} to {})", shown(item), low, high));
  }
  return out;
}

Result<const Json*> Fields::object(std::string_view name) const {
  const Json* v = find(name);
  if (v != nullptr && !v->is_object()) return bad_field(path(name), mismatch("an object", *v));
  return v;
}

Result<const Json*> Fields::array(std::string_view name) const {
  const Json* v = find(name);
  if (v != nullptr && !v->is_array()) return bad_field(path(name), mismatch("an array", *v));
  return v;
}

}  // namespace isotope::serve
