# atp_embed_text(<component path> <file> <constant>)
#
# The component gets `const std::string_view <constant>` in namespace atp with the file's bytes; a
# header of the same name as the file declares it. Run by cmake -P, this file writes that source.

if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${input} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  # One line per 16 bytes, for whoever opens the file.
  string(REGEX REPLACE "(('[^']*',){16})" "\\1\n" bytes "${bytes}")
  file(WRITE ${output} "// Made from ${name}.
#include \"${header}\"
namespace atp {
namespace {
constexpr char kBytes[] = {
${bytes}
};
}  // namespace
const std::string_view ${constant}(kBytes, sizeof kBytes);
}  // namespace atp
")
  return()
endif()

function(atp_embed_text path file constant)
  _atp_target_name(${path} target)
  get_filename_component(stem ${file} NAME_WE)
  set(source ${PROJECT_BINARY_DIR}/embedded/${path}/${stem}.cc)
  set(script ${PROJECT_SOURCE_DIR}/cmake/AtpEmbedText.cmake)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -Dinput=${PROJECT_SOURCE_DIR}/${path}/${file} -Doutput=${source}
            -Dname=${path}/${file} -Dheader=${path}/${stem}.h -Dconstant=${constant} -P ${script}
    DEPENDS ${PROJECT_SOURCE_DIR}/${path}/${file} ${script}
    VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
