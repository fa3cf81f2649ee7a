# Rules about the code itself, run as tests. Each is a small program in tools/ that can be run
# by hand too, and none of them skips: a missing tool is a failure that says what to install.

# The format and the switch's decision function are shared with eBPF, so every build proves that
# they are still in the C subset that the BPF compiler accepts.
foreach(header IN ITEMS atp/wire/packet.h atp/core/dataplane/pipeline.h)
  file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
  if(found)
    get_filename_component(name ${header} NAME)
    add_test(NAME bpf_compiles.${name}
             COMMAND ${PROJECT_SOURCE_DIR}/tools/check_bpf_compiles ${header})
  endif()
endforeach()

get_property(core_libraries GLOBAL PROPERTY ATP_CORE_LIBRARIES)
if(core_libraries)
  list(TRANSFORM core_libraries REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE core_archives)
  add_test(NAME core_is_pure COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/check_purity
                                     ${core_archives})
endif()

add_test(NAME layers COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/check_layers.py
                             ${PROJECT_SOURCE_DIR})

add_test(NAME names COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/check_names.py
                            ${PROJECT_SOURCE_DIR})
