# The grammar engine behind structured output (Apache-2.0), https://github.com/mlc-ai/xgrammar: the library's own sources only, no Python bindings.
# XGRAMMAR_LOG_CUSTOMIZE hands its messages and fatal errors to src/text/grammar/xgrammar_log.cc, so that it neither prints nor ends the process.
isotope_source(xgrammar 0.2.9 87b466bca2475e29bb0323abc62c6c33cbcbcff47e5fb800a3e2099ac9620b90)
file(GLOB xgrammar_sources ${xgrammar_SOURCE_DIR}/cpp/*.cc ${xgrammar_SOURCE_DIR}/cpp/converter_ext/*.cc ${xgrammar_SOURCE_DIR}/cpp/support/*.cc)
add_library(xgrammar STATIC ${xgrammar_sources})
target_compile_features(xgrammar PUBLIC cxx_std_17)
target_compile_options(xgrammar PRIVATE -w $<$<CONFIG:Release>:-O2>)
target_compile_definitions(xgrammar PUBLIC XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
target_include_directories(xgrammar SYSTEM PUBLIC ${xgrammar_SOURCE_DIR}/include ${xgrammar_SOURCE_DIR}/3rdparty/picojson ${xgrammar_SOURCE_DIR}/3rdparty/dlpack/include)
target_include_directories(xgrammar PRIVATE ${xgrammar_SOURCE_DIR}/cpp)
target_link_libraries(xgrammar PUBLIC Threads::Threads)

# One correction: texts of bounded length must not hold control characters, as those without a bound do not; JSON forbids them. The check fails the
# configuration when another version no longer has the line.
set(converter ${xgrammar_SOURCE_DIR}/cpp/json_schema_converter.cc)
file(READ ${converter} converter_text)
string(REPLACE [[builder_.AddCharacterClass({{'"', '"'}, {'\\', '\\'}]] [[builder_.AddCharacterClass({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}]] corrected "${converter_text}")
string(FIND "${corrected}" [[builder_.AddCharacterClass({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}]] found)
if(found EQUAL -1)
  message(FATAL_ERROR "xgrammar's ${converter} does not have the line that cmake/xgrammar.cmake corrects; look whether it still needs to be")
endif()
if(NOT corrected STREQUAL converter_text)
  file(WRITE ${converter} "${corrected}")
endif()
