# atp_component(<path> [EXECUTABLE <name>] [DEPS <component path>...] [LIBS <target>...]
#               [TEST_DEPS <component path>...])
#
# One folder is one component, and the folder's file names say what is built from it:
#
#   *.cc                      static library, e.g. atp/core/server -> atp_core_server
#                             (an INTERFACE library when the folder has headers only)
#   *_test.cc                 one GoogleTest program, e.g. atp_core_server_test, each case a ctest
#   main.cc with EXECUTABLE   program <name> in <build folder>/bin, linked to the library
#   *_bench.cc                one Google Benchmark program, e.g. atp_planner_bench; built on request
#                             only, and where the library is installed
#   *_fuzz.cc                 left to fuzz/
#
# DEPS name components that come earlier in the list, so the list cannot contain a cycle and a
# misspelt name is an error. A folder that is empty or does not exist (yet) makes no target, and
# those that depend on it are linked without it. TEST_DEPS are for the tests only.
#
# New files are picked up by the next build, without editing any CMake file.

# The sources of a component share most of their headers, so with ATP_UNITY a compiler run takes up
# to twelve of them and parses the headers once. Names in their anonymous namespaces therefore have
# to be unique within a component.

# atp_unity(<variable> <name> <source>...): sources in <build folder>/unity/<name> that include the
# given ones, or these themselves without ATP_UNITY.
function(atp_unity out name)
  if(NOT ATP_UNITY OR NOT ARGN)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  get_property(before GLOBAL PROPERTY "ATP_UNITY ${name}")
  if(before AND NOT "${before}" STREQUAL "${ARGN}")
    message(FATAL_ERROR "atp_unity(${name}): already has other sources, which these would replace; "
                        "choose another name")
  endif()
  set_property(GLOBAL PROPERTY "ATP_UNITY ${name}" "${ARGN}")
  list(LENGTH ARGN count)
  math(EXPR parts "(${count} + 11) / 12")
  set(index 0)
  set(units)
  foreach(source IN LISTS ARGN)
    # The parts are of equal size. They contain no paths of this machine, because ccache compares
    # the text.
    math(EXPR part "${index} * ${parts} / ${count}")
    math(EXPR index "${index} + 1")
    file(RELATIVE_PATH source ${PROJECT_SOURCE_DIR} ${source})
    string(APPEND text_${part} "#include \"${source}\"\n")
  endforeach()
  foreach(part RANGE 1 ${parts})
    math(EXPR part "${part} - 1")
    set(unit ${PROJECT_BINARY_DIR}/unity/${name}/${part}.cc)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${text_${part}}" @ONLY)
    list(APPEND units ${unit})
  endforeach()
  set(${out} ${units} PARENT_SCOPE)
endfunction()

function(_atp_target_name path out)
  string(REPLACE "/" "_" name "${path}")
  set(${out} "${name}" PARENT_SCOPE)
endfunction()

function(atp_component path)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXECUTABLE" "DEPS;LIBS;TEST_DEPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "atp_component(${path}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  get_property(declared GLOBAL PROPERTY ATP_COMPONENTS)
  set(links ${arg_LIBS})
  set(test_links)
  foreach(dep IN LISTS arg_DEPS arg_TEST_DEPS)
    if(NOT dep IN_LIST declared)
      message(FATAL_ERROR "atp_component(${path}): DEPS names ${dep}, which is not a component "
                          "declared earlier in the list of the root CMakeLists.txt")
    endif()
    _atp_target_name(${dep} dep_target)
    if(NOT TARGET ${dep_target})
      continue()
    endif()
    if(dep IN_LIST arg_DEPS)
      list(APPEND links ${dep_target})
    else()
      list(APPEND test_links ${dep_target})
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY ATP_COMPONENTS ${path})

  # The headers are globbed only so that the next build notices a new folder of headers.
  set(folder ${PROJECT_SOURCE_DIR}/${path})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  file(GLOB headers CONFIGURE_DEPENDS ${folder}/*.h)
  if(NOT sources AND NOT headers)
    return()
  endif()
  _atp_target_name(${path} target)

  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  if(arg_EXECUTABLE)
    list(REMOVE_ITEM sources ${folder}/main.cc)
  endif()

  if(sources)
    atp_unity(units ${path} ${sources})
    add_library(${target} STATIC ${units})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PUBLIC ${links} PRIVATE atp_strict_warnings)
    if(path MATCHES "^atp/core(/|$)")
      set_property(GLOBAL APPEND PROPERTY ATP_CORE_LIBRARIES ${target})
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} INTERFACE ${links})
  endif()

  if(arg_EXECUTABLE AND EXISTS ${folder}/main.cc)
    add_executable(${arg_EXECUTABLE} ${folder}/main.cc)
    target_link_libraries(${arg_EXECUTABLE} PRIVATE ${target} atp_strict_warnings)
    set_target_properties(${arg_EXECUTABLE} PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  endif()

  if(tests AND ATP_TESTS)
    add_executable(${target}_test ${tests})
    target_link_libraries(${target}_test PRIVATE ${target} ${test_links} atp_warnings
                          GTest::gmock_main)
    # What is tested is the library, which is built as users get it. The test around it is compiled
    # more often than it runs, and with -O3 half of the compiler's time went into tests.
    target_compile_options(${target}_test PRIVATE $<$<CONFIG:Release>:-O1>)
    string(REGEX REPLACE "^atp/" "" label ${path})
    gtest_discover_tests(${target}_test TEST_PREFIX "${label}." DISCOVERY_TIMEOUT 60
                         PROPERTIES LABELS ${label} TIMEOUT 300)
  endif()

  if(benches AND benchmark_FOUND)
    add_executable(${target}_bench EXCLUDE_FROM_ALL ${benches})
    target_link_libraries(${target}_bench PRIVATE ${target} atp_warnings benchmark::benchmark)
  endif()
endfunction()
