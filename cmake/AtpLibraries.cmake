# The libraries that the components use. The program links archives only, so that it runs on hosts
# on which none of them is installed; all that it needs there is the C library.
#
#   atp_fmt, atp_spdlog, atp_yaml, atp_xxhash, atp_sodium, CLI11::CLI11,
#   nlohmann_json::nlohmann_json
#
# Without ATP_PROGRAM (a wheel of the Python module) only xxHash is needed, which is in third_party/.
# The planner's Python binding, ATP_PLANNER, is built if its two libraries are there; and keys can be
# used if libsodium is.

find_package(Threads REQUIRED)

# xxHash is a single header, the unchanged file of its release 0.8.1. It is in the repository so
# that building the Python module needs no system package and, apart from pip, no network.
set(xxhash_header ${PROJECT_SOURCE_DIR}/third_party/xxhash.h)
set(xxhash_sha256 d4f2b91b547c79061649186721a6b331609f2bf8595485a21ea631c82ec3ef93)
set(found)
if(EXISTS ${xxhash_header})
  file(SHA256 ${xxhash_header} found)
endif()
if(NOT found STREQUAL xxhash_sha256)
  message(FATAL_ERROR "${xxhash_header}: expected the file with SHA-256 ${xxhash_sha256}, found "
                      "\"${found}\". Restore it: git checkout third_party")
endif()
add_library(atp_xxhash INTERFACE)
target_include_directories(atp_xxhash SYSTEM INTERFACE ${PROJECT_SOURCE_DIR}/third_party)

function(_atp_find_archive variable name package)
  find_library(${variable} ${name})
  if(NOT ${variable})
    message(FATAL_ERROR "${name} is missing: run tools/setup, or install ${package}.")
  endif()
endfunction()

# Keys. As with yaml-cpp, shared objects cannot link Debian's archive.
find_path(sodium_folder sodium.h)
find_library(sodium_library libsodium.so)
find_library(sodium_archive libsodium.a)
add_library(atp_sodium INTERFACE)
if(sodium_folder AND sodium_library AND sodium_archive)
  target_compile_definitions(atp_sodium INTERFACE ATP_HAS_SODIUM)
  target_include_directories(atp_sodium SYSTEM INTERFACE ${sodium_folder})
  target_link_libraries(atp_sodium INTERFACE
    $<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>,${sodium_library},${sodium_archive}>)
elseif(ATP_PROGRAM)
  message(FATAL_ERROR "libsodium is missing: run tools/setup, or install libsodium-dev.")
else()
  message(STATUS "Ranks of this build cannot use keys (ATP_KEY_FILE), which need libsodium "
                 "(libsodium-dev)")
endif()

if(ATP_PROGRAM)
  find_package(nlohmann_json REQUIRED)
  find_package(yaml-cpp REQUIRED)
else()
  find_package(nlohmann_json QUIET)
  find_package(yaml-cpp QUIET)
endif()
set(ATP_PLANNER OFF)
if(nlohmann_json_FOUND AND yaml-cpp_FOUND)
  set(ATP_PLANNER ON)
  _atp_find_archive(yaml_cpp_archive libyaml-cpp.a libyaml-cpp-dev)
  # Its target has had a namespace since 0.8.
  set(yaml_cpp yaml-cpp)
  if(TARGET yaml-cpp::yaml-cpp)
    set(yaml_cpp yaml-cpp::yaml-cpp)
  endif()
  # Debian compiles the archive for programs, not for shared objects such as the Python binding.
  add_library(atp_yaml INTERFACE)
  target_include_directories(atp_yaml SYSTEM INTERFACE
                             $<TARGET_PROPERTY:${yaml_cpp},INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(atp_yaml INTERFACE
    $<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>,${yaml_cpp},${yaml_cpp_archive}>)
else()
  message(STATUS "atp.planner is left out: it needs yaml-cpp and nlohmann-json "
                 "(libyaml-cpp-dev, nlohmann-json3-dev)")
endif()

if(ATP_PROGRAM)
  find_package(CLI11 REQUIRED)
  find_package(fmt REQUIRED)
  find_package(spdlog REQUIRED)
  if(fmt_VERSION MATCHES "^9\\.")
    add_library(atp_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt_archive.cc)
    target_include_directories(atp_fmt SYSTEM PUBLIC
                               $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
  else()
    add_library(atp_fmt INTERFACE)
    target_link_libraries(atp_fmt INTERFACE fmt::fmt-header-only)
  endif()
  # Only one source includes spdlog, so using it as headers costs nothing.
  add_library(atp_spdlog INTERFACE)
  target_compile_definitions(atp_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
  target_include_directories(atp_spdlog SYSTEM INTERFACE
                             $<TARGET_PROPERTY:spdlog::spdlog,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(atp_spdlog INTERFACE atp_fmt Threads::Threads)
endif()
