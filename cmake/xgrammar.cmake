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

# Corrections of the library's text. The configuration fails when another version no longer has such a line.
function(isotope_correct file from to)
  file(READ ${xgrammar_SOURCE_DIR}/cpp/${file} text)
  string(REPLACE "${from}" "${to}" corrected "${text}")
  string(FIND "${corrected}" "${to}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "xgrammar's ${file} does not have the line that cmake/xgrammar.cmake corrects; look whether it still needs to be")
  endif()
  if(NOT corrected STREQUAL text)
    file(WRITE ${xgrammar_SOURCE_DIR}/cpp/${file} "${corrected}")
  endif()
endfunction()
# Texts of bounded length must not hold control characters, as those without a bound do not; JSON forbids them.
isotope_correct(json_schema_converter.cc [[builder_.AddCharacterClass({{'"', '"'}, {'\\', '\\'}]] [[builder_.AddCharacterClass({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}]])
# A grammar is written as text and read again, where \x takes all digits behind it: "\xe9" and "1" would become one character. \u takes four.
isotope_correct(support/encoding.h [[char prefix = codepoint <= 0xFF ? 'x' : codepoint <= 0xFFFF ? 'u' : 'U';]] [[char prefix = codepoint <= 0xFFFF ? 'u' : 'U';]])
isotope_correct(support/encoding.h [[int width = codepoint <= 0xFF ? 2 : codepoint <= 0xFFFF ? 4 : 8;]] [[int width = codepoint <= 0xFFFF ? 4 : 8;]])
