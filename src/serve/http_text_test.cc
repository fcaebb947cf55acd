#include "serve/http_text.h"

#include <gtest/gtest.h>

namespace isotope::serve {
namespace {

TEST(HttpText, SplitsTargets) {
  struct Row {
    const char *target, *path, *query;
    bool ok = true;
  };
  for (const Row& r : {Row{"/a/b", "/a/b", ""}, Row{"/a%20b?x=%20", "/a b", "x=%20"}, Row{"http://h:1/x?y", "/x", "y"}, Row{"http://h", "/", ""},
                       Row{"*", "", ""}, Row{"a", "", "", false}, Row{"/%", "/", "", false}, Row{"/%4", "/", "", false}, Row{"/%g1", "/", "", false},
                       Row{"", "", "", false}, Row{"/?", "/", ""}}) {
    std::string path, query;
    EXPECT_EQ(split_target(r.target, path, query), r.ok) << r.target;
    if (!r.ok) continue;
    EXPECT_EQ(path, r.path) << r.target;
    EXPECT_EQ(query, r.query) << r.target;
  }
}

TEST(HttpText, AllowsOrigins) {
  EXPECT_EQ(allowed_origin({"*"}, ""), "*");
  EXPECT_EQ(allowed_origin({"http://a"}, "http://a"), "http://a");
  EXPECT_EQ(allowed_origin({"http://a"}, "http://b"), "");
  EXPECT_EQ(allowed_origin({}, "http://b"), "");
}

}  // namespace
}  // namespace isotope::serve
