# isotope_layer(NAME DEPS...)   One library for each folder of src/, as docs/architecture.md lists them.
# Every *.cc beside the folder's headers belongs to it; every *_test.cc goes into the folder's own test program.
# A folder that has no sources yet becomes an interface library, so that the dependency table can be written down whole.
function(isotope_layer name)
  string(REPLACE "_" "/" dir ${name})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${dir}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(isotope_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(isotope_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(isotope_${name} ${scope} ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(isotope_${name} ${scope} isotope_options)
  foreach(dep ${ARGN})
    target_link_libraries(isotope_${name} ${scope} ${dep})
  endforeach()
  if(tests AND ISOTOPE_TESTS)
    isotope_test(${name}_test SOURCES ${tests} LIBS isotope_${name})
  endif()
endfunction()

# isotope_embed(TARGET FOLDER)   The files of src/FOLDER as string literals in FOLDER_files.inc: rows {"name", R"isotope(...)isotope"}.
# A string literal holds 64 KiB on every compiler; no file here comes near it.
function(isotope_embed target folder)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*)
  set(rows "")
  foreach(file ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME)
    file(READ ${file} text)
    string(APPEND rows "{\"${name}\", R\"isotope(${text})isotope\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/embedded/${folder}_files.inc CONTENT "@rows@" @ONLY)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/embedded)
endfunction()

# isotope_test(NAME SOURCES ... LIBS ... [DATA dir])  A GoogleTest program registered with ctest.
function(isotope_test name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LIBS} isotope_test_support GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O1)  # tests are compiled often and run once
  target_compile_definitions(${name} PRIVATE ISOTOPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ISOTOPE_BINARY_DIR="${PROJECT_BINARY_DIR}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS "${A_LABELS}")
endfunction()

# isotope_isa(TARGET ISA FLAGS...)  Compiles the one kernel body src/kernels/cpu/all.inl for an instruction set.
# Always optimised: at -O0 inline functions would leave weak symbols, and the linker could then hand AVX-512 code to a caller that must run anywhere.
# The test no_weak_ISA guards that.
function(isotope_isa target isa)
  set(tu ${PROJECT_BINARY_DIR}/kernels_${isa}.cc)
  file(CONFIGURE OUTPUT ${tu} CONTENT "#define ISO_ISA ${isa}\n#define ISO_ISA_NAME \"${isa}\"\n#include \"kernels/cpu/all.inl\"\n")
  add_library(kernels_${isa} OBJECT ${tu})
  target_include_directories(kernels_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_compile_features(kernels_${isa} PRIVATE cxx_std_20)
  target_compile_options(kernels_${isa} PRIVATE -O3 -ffp-contract=off -fno-math-errno -fno-exceptions -fno-rtti -fno-sanitize=all ${ARGN})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:kernels_${isa}>)
  if(ISOTOPE_TESTS)
    add_test(NAME no_weak_${isa} COMMAND sh -c "! nm $<TARGET_OBJECTS:kernels_${isa}> | grep -E ' [WVu] '")
  endif()
endfunction()
