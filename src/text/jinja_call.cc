#include "text/jinja_call.h"

#include <algorithm>

#include "text/jinja_number.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

// Splits "width,first,blank" into its names.
size_t split_params(std::string_view params, std::string_view (&out)[kMaxParams]) {
  size_t n = 0;
  while (!params.empty() && n < kMaxParams) {
    const size_t comma = std::min(params.find(','), params.size());
    out[n++] = params.substr(0, comma);
    params.remove_prefix(std::min(comma + 1, params.size()));
  }
  return n;
}

std::string called(const Row& row) { return std::string(row.name) + "()"; }

}  // namespace

const Value* Args::find(std::string_view name) const {
  for (const auto& [n, v] : named)
    if (n == name) return &v;
  return nullptr;
}

void Args::drop(std::string_view name) {
  named.erase(std::remove_if(named.begin(), named.end(), [&](const auto& x) { return x.first == name; }), named.end());
}

Value invoke(Vm& vm, const Row& row, const Value& subject, Args& args) {
  if (row.open) return row.open(vm, subject, args);
  std::string_view names[kMaxParams];
  const size_t n = split_params(row.params, names);
  Value a[kMaxParams + 1];
  a[0] = subject;
  if (args.positional.size() > n)
    raise(Fault::type, called(row) + " takes at most " + std::to_string(n) + " arguments (" +
                           std::to_string(args.positional.size()) + " given)");
  for (size_t i = 0; i < args.positional.size(); ++i) a[i + 1] = args.positional[i];
  for (const auto& [name, value] : args.named) {
    const size_t i = static_cast<size_t>(std::find(names, names + n, name) - names);
    if (row.positional_only) raise(Fault::type, called(row) + " takes no keyword arguments");
    if (i == n) raise(Fault::type, called(row) + " got an unexpected keyword argument '" + name + "'");
    if (given(a[i + 1])) raise(Fault::type, called(row) + " got multiple values for argument '" + name + "'");
    a[i + 1] = value;
  }
  for (size_t i = 0; i < row.required; ++i)
    if (!given(a[i + 1]))
      raise(Fault::type, called(row) + " missing 1 required positional argument: '" + std::string(names[i]) + "'");
  return row.fixed(vm, a);
}

Value make_function(const Row& row, Value self, const char* type) {
  auto f = std::make_shared<Function>();
  f->name = row.name;
  f->type = type;
  f->row = &row;
  f->depth = self.depth() + 1;
  f->self = std::move(self);
  return {Kind::function, std::move(f)};
}

int64_t int_arg(const Value& v, const char* what) {
  if (v.is_int()) return v.as_int();
  if (v.is(Kind::big)) raise(Fault::overflow, std::string(what) + " does not fit into 64 bits");
  raise(Fault::type, std::string("'") + type_name(v) + "' object cannot be interpreted as an integer");
}

int64_t int_arg(const Value& v, const char* what, int64_t otherwise) { return given(v) ? int_arg(v, what) : otherwise; }

const Str& str_arg(const Value& v, const char* what) {
  if (!v.is(Kind::string)) raise(Fault::type, std::string(what) + " must be str, not " + type_name(v));
  return str(v);
}

const Row* find_filter(std::string_view name) {
  for (const Table& t : {string_filters(), sequence_filters(), value_filters()})
    for (const Row* r = t.rows; r != t.rows + t.size; ++r)
      if (r->name == name) return r;
  return nullptr;
}

}  // namespace isotope::text::jinja
