// Filters over sequences. Those that are generators in Python are lazy here too: an error in an item nobody reads stays unseen.
#include <algorithm>

#include "text/jinja_call.h"
#include "text/jinja_number.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

using Getter = std::function<Value(const Value&)>;

// "address.0.city": what the attribute argument of many filters means. None = the item itself.
std::vector<Value> path_parts(Budget& b, const Value& attribute) {
  if (!given(attribute) || attribute.is(Kind::none)) return {};
  if (!attribute.is(Kind::string)) return {attribute};
  std::vector<Value> parts = split(b, str(attribute), make_literal("."), -1);
  for (Value& p : parts) {
    Value number;
    const std::string_view t = text(p);
    if (!t.empty() && t.find_first_not_of("0123456789") == kNone && parse_int(t, 10, number)) p = number;
  }
  return parts;
}

Getter attribute_getter(Vm& vm, const Value& attribute, const Value& otherwise = {}) {
  return [&vm, parts = path_parts(vm.b, attribute), otherwise](const Value& item) {
    Value v = item;
    for (const Value& p : parts) {
      v = vm.item(v, p);
      if (given(otherwise) && !otherwise.is(Kind::none) && v.is(Kind::undefined)) v = otherwise;
    }
    return v;
  };
}

Value ignore_case(Vm& vm, const Value& v) {
  if (!v.is(Kind::string)) return v;
  vm.b.charge(1 + text(v).size() / 32);
  return make_literal(lower_text(str(v)));
}

Getter key_getter(Vm& vm, const Value& attribute, bool case_sensitive, const Value& otherwise = {}) {
  return [&vm, get = attribute_getter(vm, attribute, otherwise), case_sensitive](const Value& item) {
    const Value v = get(item);
    return case_sensitive ? v : ignore_case(vm, v);
  };
}

bool flag(const Value& v) { return given(v) && truth(v); }

// ---- order

Value sort_filter(Vm& vm, const Value* a) {
  const bool reverse = flag(a[1]), sensitive = flag(a[2]);
  std::vector<Getter> getters;  // "age,name" sorts by several
  if (given(a[3]) && a[3].is(Kind::string))
    for (const Value& part : split(vm.b, str(a[3]), make_literal(","), -1)) getters.push_back(key_getter(vm, part, sensitive));
  else getters.push_back(key_getter(vm, a[3], sensitive));
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& v : collect(vm.b, a[0])) {
    std::vector<Value> key;
    for (const Getter& g : getters) key.push_back(g(v));
    keyed.emplace_back(make_list(vm.b, std::move(key)), std::move(v));
  }
  sort_by(vm.b, keyed, reverse);
  std::vector<Value> out;
  for (auto& [k, v] : keyed) out.push_back(std::move(v));
  return make_list(vm.b, std::move(out));
}

Value dict_sort(Vm& vm, const Value* a) {
  if (a[0].is(Kind::undefined)) raise_undefined(a[0]);
  if (!a[0].is(Kind::dict)) raise(Fault::type, std::string("'") + type_name(a[0]) + "' object has no attribute 'items'");
  const std::string by(given(a[2]) && a[2].is(Kind::string) ? text(a[2]) : std::string_view("key"));
  if (by != "key" && by != "value") raise(Fault::argument, "You can only sort by either \"key\" or \"value\"");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [k, v] : a[0].as<Dict>().items()) {
    const Value& key = by == "key" ? k : v;
    keyed.emplace_back(flag(a[1]) ? key : ignore_case(vm, key), make_tuple(vm.b, {k, v}));
  }
  sort_by(vm.b, keyed, flag(a[3]));
  std::vector<Value> out;
  for (auto& [k, v] : keyed) out.push_back(std::move(v));
  return make_list(vm.b, std::move(out));
}

Value group_by(Vm& vm, const Value* a) {
  const bool sensitive = flag(a[3]);
  const Getter key = key_getter(vm, a[1], sensitive, a[2]), real = attribute_getter(vm, a[1], a[2]);
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& v : collect(vm.b, a[0])) keyed.emplace_back(key(v), std::move(v));
  sort_by(vm.b, keyed, false);
  std::vector<Value> out;
  for (size_t i = 0; i < keyed.size();) {
    std::vector<Value> group;
    const size_t first = i;
    while (i < keyed.size() && (i == first || equal(vm.b, keyed[i].first, keyed[first].first)))
      group.push_back(keyed[i++].second);
    const Value name = sensitive ? keyed[first].first : real(group[0]);
    Value pair = make_tuple(vm.b, {name, make_list(vm.b, std::move(group))});
    pair.as<Seq>().group = true;
    out.push_back(std::move(pair));
  }
  return make_list(vm.b, std::move(out));
}

template <bool largest>
Value extreme(Vm& vm, const Value* a) {
  const Getter key = key_getter(vm, a[2], flag(a[1]));
  const auto it = iterate(vm.b, a[0]);
  Value best, best_key;
  for (Value v; it->next(v);) {
    Value k = key(v);
    if (!given(best) || (largest ? less(vm.b, k, best_key, ">") : less(vm.b, k, best_key, "<")))
      best = v, best_key = std::move(k);
  }
  return given(best) ? best : make_hint("No aggregated item, sequence was empty.");
}

Value reverse(Vm& vm, const Value* a) {
  if (a[0].is(Kind::string)) return slice(vm.b, a[0], Value::none(), Value::none(), Value::integer(-1));
  if (!is_iterable(a[0])) raise(Fault::argument, "argument must be iterable");
  std::vector<Value> items = collect(vm.b, a[0]);
  std::reverse(items.begin(), items.end());
  const Value list = make_list(vm.b, std::move(items));
  if (a[0].is(Kind::iterator)) return list;
  const char* type = a[0].is(Kind::list)    ? "list_reverseiterator"
                     : a[0].is(Kind::range) ? "range_iterator"
                     : a[0].is(Kind::dict)  ? "dict_reversekeyiterator"
                                            : "reversed";
  auto it = iterate(vm.b, list);
  it->type = type;
  it->depth = list.depth();
  return {Kind::iterator, std::move(it)};
}

Value first(Vm& vm, const Value* a) {
  Value v;
  return iterate(vm.b, a[0])->next(v) ? v : make_hint("No first item, sequence was empty.");
}

Value last(Vm& vm, const Value* a) {
  if (a[0].is(Kind::iterator)) raise(Fault::type, std::string("'") + type_name(a[0]) + "' object is not reversible");
  if (a[0].is(Kind::string) && !text(a[0]).empty()) return slice(vm.b, a[0], Value::integer(-1), Value::none(), Value::none());
  if (!is_iterable(a[0])) raise(Fault::type, std::string("'") + type_name(a[0]) + "' object is not reversible");
  const std::vector<Value> items = collect(vm.b, a[0]);
  return items.empty() ? make_hint("No last item, sequence was empty.") : items.back();
}

// ---- lazy ones

Value map_filter(Vm& vm, const Value& subject, Args& args) {
  // Nothing is looked at before the first item is wanted, not even the arguments.
  struct State { Args args; std::shared_ptr<Iter> it; Getter get; bool started = false; };
  auto s = std::make_shared<State>();
  s->args = args;
  return make_lazy([&vm, subject, s](Value& out) {
    if (!s->started) {
      s->started = true;
      if (truth(subject)) {
        if (s->args.positional.empty() && s->args.find("attribute")) {
          const Value attribute = *s->args.find("attribute"), *otherwise = s->args.find("default");
          s->get = attribute_getter(vm, attribute, otherwise ? *otherwise : Value());
          for (const auto& [name, v] : s->args.named)
            if (name != "attribute" && name != "default") raise(Fault::argument, "Unexpected keyword argument '" + name + "'");
        } else {
          if (s->args.positional.empty()) raise(Fault::argument, "map requires a filter argument");
          const Value name = s->args.positional[0];
          s->args.positional.erase(s->args.positional.begin());
          s->get = [&vm, name, raw = s.get()](const Value& v) {
            Args copy = raw->args;
            return vm.call_filter(str_arg(name, "the filter name").text, v, copy);
          };
        }
        s->it = iterate(vm.b, subject);
      }
    }
    Value v;
    if (!s->it || !s->it->next(v)) return false;
    vm.b.charge(1);
    out = s->get(v);
    return true;
  }, subject);
}

template <bool by_attribute, bool keep>
Value choose(Vm& vm, const Value& subject, Args& args) {
  struct State { Args args; std::shared_ptr<Iter> it; Getter get; Value test; bool started = false; };
  auto s = std::make_shared<State>();
  s->args = args;
  return make_lazy([&vm, subject, s](Value& out) {
    if (!s->started) {
      s->started = true;
      if (truth(subject)) {
        auto& p = s->args.positional;
        if (by_attribute) {
          if (p.empty()) raise(Fault::argument, "Missing parameter for attribute name");
          s->get = attribute_getter(vm, p[0]);
          p.erase(p.begin());
        }
        if (!p.empty()) s->test = p[0], p.erase(p.begin());
        s->it = iterate(vm.b, subject);
      }
    }
    if (!s->it) return false;
    for (Value v; s->it->next(v);) {
      vm.b.charge(1);
      const Value looked_at = by_attribute ? s->get(v) : v;
      bool ok;
      if (given(s->test)) {
        Args copy = s->args;
        ok = vm.call_test(str_arg(s->test, "the test name").text, looked_at, copy);
      } else {
        ok = truth(looked_at);
      }
      if (ok == keep) return out = v, true;
    }
    return false;
  }, subject);
}

Value unique(Vm& vm, const Value* a) {
  struct State { std::shared_ptr<Iter> it; Getter key; Dict seen; };
  auto s = std::make_shared<State>();
  s->key = key_getter(vm, a[2], flag(a[1]));
  return make_lazy([&vm, subject = a[0], s](Value& out) {
    if (!s->it) s->it = iterate(vm.b, subject);
    for (Value v; s->it->next(v);) {
      const Value k = s->key(v);
      hash(vm.b, k);
      if (s->seen.find(vm.b, k)) continue;
      s->seen.set(vm.b, k, Value::none());
      return out = v, true;
    }
    return false;
  }, a[0]);
}

Value batch(Vm& vm, const Value* a) {
  struct State { std::shared_ptr<Iter> it; std::vector<Value> row; bool done = false; };
  auto s = std::make_shared<State>();
  return make_lazy([&vm, subject = a[0], size = a[1], fill = a[2], s](Value& out) {
    if (s->done) return false;
    if (!s->it) s->it = iterate(vm.b, subject);
    for (Value v; s->it->next(v);) {
      if (equal(vm.b, Value::integer(static_cast<int64_t>(s->row.size())), size)) {
        out = make_list(vm.b, std::exchange(s->row, {std::move(v)}));
        return true;
      }
      vm.b.check_items(1);
      s->row.push_back(std::move(v));
    }
    s->done = true;
    if (s->row.empty()) return false;
    if (given(fill) && !fill.is(Kind::none)) {
      const int64_t n = int_arg(size, "linecount");
      if (n > static_cast<int64_t>(s->row.size()))
        vm.b.check_items(static_cast<size_t>(n)), s->row.resize(static_cast<size_t>(n), fill);
    }
    out = make_list(vm.b, std::move(s->row));
    return true;
  }, a[0]);
}

Value slice_filter(Vm& vm, const Value* a) {
  struct State { std::vector<Value> items; int64_t number = -1, offset = 0; };
  auto s = std::make_shared<State>();
  return make_lazy([&vm, subject = a[0], slices = a[1], fill = a[2], s](Value& out) {
    const int64_t n = int_arg(slices, "slices");
    if (s->number < 0) s->items = collect(vm.b, subject), s->number = 0;
    if (n == 0) raise(Fault::zero_division, "integer division or modulo by zero");
    if (s->number >= n) return false;
    const auto total = static_cast<int64_t>(s->items.size());
    const int64_t each = total / n, extra = total % n, start = s->offset + s->number * each;
    if (s->number < extra) ++s->offset;
    const int64_t end = std::min(total, s->offset + (s->number + 1) * each);
    std::vector<Value> part(s->items.begin() + std::min(start, total), s->items.begin() + end);
    if (given(fill) && !fill.is(Kind::none) && s->number >= extra) part.push_back(fill);
    ++s->number;
    out = make_list(vm.b, std::move(part));
    return true;
  }, a[0]);
}

Value items_filter(Vm& vm, const Value* a) {
  auto it = std::make_shared<std::shared_ptr<Iter>>();
  return make_lazy([&vm, subject = a[0], it](Value& out) {
    if (subject.is(Kind::undefined)) return false;
    if (!subject.is(Kind::dict)) raise(Fault::type, "Can only get item pairs from a mapping.");
    if (!*it) {
      Args none;
      *it = iterate(vm.b, vm.call(vm.attribute(subject, "items"), none));
    }
    return (*it)->next(out);
  }, a[0]);
}

// ---- folds

Value join_filter(Vm& vm, const Value* a) {
  const Value separator = given(a[1]) ? to_str(vm.b, a[1]) : make_literal({});
  const Getter get = attribute_getter(vm, a[2]);
  const auto it = iterate(vm.b, a[0]);
  Writer w(vm.b);
  bool first_item = true;
  for (Value v; it->next(v);) {
    vm.b.charge(1);
    if (!first_item) w.add(str(separator));
    first_item = false;
    write_str(w, get(v));
  }
  return w.take();
}

Value sum(Vm& vm, const Value* a) {
  Value total = given(a[2]) ? a[2] : Value::integer(0);
  if (total.is(Kind::string)) raise(Fault::type, "sum() can't sum strings [use ''.join(seq) instead]");
  const Getter get = attribute_getter(vm, a[1]);
  const auto it = iterate(vm.b, a[0]);
  for (Value v; it->next(v);) vm.b.charge(1), total = add(vm.b, total, get(v));
  return total;
}

Value list_filter(Vm& vm, const Value* a) { return make_list(vm.b, collect(vm.b, a[0])); }
Value length_filter(Vm&, const Value* a) { return Value::integer(static_cast<int64_t>(length(a[0]))); }

constexpr Row kRows[] = {
    {"length", "", 0, length_filter},
    {"count", "", 0, length_filter},
    {"list", "", 0, list_filter},
    {"join", "d,attribute", 0, join_filter},
    {"map", "", 0, nullptr, map_filter},
    {"select", "", 0, nullptr, choose<false, true>},
    {"reject", "", 0, nullptr, choose<false, false>},
    {"selectattr", "", 0, nullptr, choose<true, true>},
    {"rejectattr", "", 0, nullptr, choose<true, false>},
    {"first", "", 0, first},
    {"last", "", 0, last},
    {"items", "", 0, items_filter},
    {"sort", "reverse,case_sensitive,attribute", 0, sort_filter},
    {"dictsort", "case_sensitive,by,reverse", 0, dict_sort},
    {"groupby", "attribute,default,case_sensitive", 1, group_by},
    {"unique", "case_sensitive,attribute", 0, unique},
    {"reverse", "", 0, reverse},
    {"min", "case_sensitive,attribute", 0, extreme<false>},
    {"max", "case_sensitive,attribute", 0, extreme<true>},
    {"sum", "attribute,start", 0, sum},
    {"batch", "linecount,fill_with", 1, batch},
    {"slice", "slices,fill_with", 1, slice_filter},
};

}  // namespace

Table sequence_filters() { return {kRows, std::size(kRows)}; }

}  // namespace isotope::text::jinja
