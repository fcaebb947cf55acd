# isotope_source(NAME VERSION SHA256)   Source package of the Python package index, by name, version and hash. Sets NAME_SOURCE_DIR to its unpacked sources.
# The archive is kept in ${XDG_CACHE_HOME:-~/.cache}/isotope/sources, so that only the first configuration on a machine needs the network.
function(isotope_source name version sha256)
  set(cache $ENV{XDG_CACHE_HOME})
  if(NOT cache)
    set(cache $ENV{HOME}/.cache)
  endif()
  set(folder ${cache}/isotope/sources)
  set(archive ${folder}/${name}-${version}.tar.gz)
  set(unpacked ${PROJECT_BINARY_DIR}/_sources/${name}-${version})
  set(${name}_SOURCE_DIR ${unpacked} PARENT_SCOPE)
  if(EXISTS ${unpacked}/.unpacked-${sha256})
    return()
  endif()
  if(EXISTS ${archive})
    file(SHA256 ${archive} got)
  endif()
  if(NOT "${got}" STREQUAL ${sha256})
    isotope_download(${name} ${version} ${sha256} ${folder} ${archive})
  endif()
  file(REMOVE_RECURSE ${unpacked})
  file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${PROJECT_BINARY_DIR}/_sources)
  file(TOUCH ${unpacked}/.unpacked-${sha256})
endfunction()

# pip asks a source package for its metadata, which would fetch and run its build program; cmake/sources/pip_stub answers instead.
function(isotope_download name version sha256 folder archive)
  message(STATUS "Fetching ${name} ${version} from the Python package index")
  set(python $ENV{ISOTOPE_PYTHON})
  if(NOT python)
    set(python python3)
  endif()
  file(MAKE_DIRECTORY ${folder})
  set(wanted ${PROJECT_BINARY_DIR}/_sources/${name}.txt)
  file(WRITE ${wanted} "${name}==${version} --hash=sha256:${sha256}\n")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${PROJECT_SOURCE_DIR}/cmake/sources/pip_stub ISOTOPE_SOURCE_NAME=${name} ISOTOPE_SOURCE_VERSION=${version}
            ${python} -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-binary ${name} --require-hashes
            -r ${wanted} -d ${folder}
    RESULT_VARIABLE status ERROR_VARIABLE said OUTPUT_VARIABLE said)
  if(NOT status EQUAL 0 OR NOT EXISTS ${archive})
    message(FATAL_ERROR "The sources of ${name} ${version} cannot be fetched:\n${said}\n"
      "Connect to the network (python3-pip is needed too, see packages.txt), or put ${name}-${version}.tar.gz with the SHA-256 ${sha256} into ${folder} and configure again.")
  endif()
endfunction()
